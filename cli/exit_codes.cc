#include "cli/exit_codes.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "kernels/status.h"

namespace strata {

int ReportError(const std::string& name, const absl::Status& status) {
  std::string message(absl::StripTrailingAsciiWhitespace(status.message()));
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fprintf(stderr, "strata%s%s: %s\n", name.empty() ? "" : " ", name.c_str(), message.c_str());
  return IsCallersError(status) ? kExitBadInput : kExitFailure;
}

}  // namespace strata
