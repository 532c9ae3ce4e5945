#include "kernels/status.h"

#include <cstdio>
#include <cstdlib>

#include "absl/debugging/stacktrace.h"
#include "absl/debugging/symbolize.h"

namespace strata {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  void* frames[32];
  const int depth = absl::GetStackTrace(frames, 32, 1);
  for (int i = 0; i < depth; ++i) {
    char name[256] = "?";
    absl::Symbolize(frames[i], name, sizeof(name));
    std::fprintf(stderr, "  %p %s\n", frames[i], name);
  }
  std::abort();
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

bool IsCallersError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
      return true;
    default:
      return false;
  }
}

}  // namespace strata
