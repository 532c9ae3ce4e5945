#include "absl/strings/str_cat.h"
#include "cli/lab/lab.h"
#include "kernels/status.h"

namespace strata {
namespace {

absl::Status CheckRange(const char* option, int value, int least, int most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", value, " is outside ", least, " to ", most));
}

}  // namespace

absl::Status CheckLab(const LabOptions& options, const std::vector<std::string>& program) {
  STRATA_RETURN_IF_ERROR(CheckRange("--nodes", options.nodes, 1, 1000));
  STRATA_RETURN_IF_ERROR(CheckRange("--ranks-per-node", options.ranks_per_node, 1, 1000));
  STRATA_RETURN_IF_ERROR(CheckRange("--mtu", options.mtu, 576, 65535));
  if (options.grace < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--grace is negative");
  }
  if (program.empty()) {
    return absl::InvalidArgumentError("no program; put it after \"--\", as in -- hostname");
  }
  return FindProgram(program[0]).status();
}

}  // namespace strata
