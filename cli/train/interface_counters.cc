#include "cli/train/interface_counters.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

absl::StatusOr<int64_t> ReadCount(const std::string& path) {
  std::ifstream file(path);
  int64_t count = 0;
  if (!(file >> count)) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return count;
}

}  // namespace

absl::StatusOr<InterfaceBytes> ReadInterfaceBytes(const std::string& interface) {
  const std::string folder = absl::StrCat("/sys/class/net/", interface, "/statistics/");
  InterfaceBytes bytes;
  STRATA_ASSIGN_OR_RETURN(bytes.sent, ReadCount(folder + "tx_bytes"));
  STRATA_ASSIGN_OR_RETURN(bytes.received, ReadCount(folder + "rx_bytes"));
  return bytes;
}

}  // namespace strata
