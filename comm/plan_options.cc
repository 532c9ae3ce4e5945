#include "comm/plan_options.h"

#include "absl/strings/str_cat.h"

namespace strata {

absl::Status CheckPlanArguments(const Topology& topology, const ShardLayout& from,
                                const ShardLayout& to, Rank self, const PlanOptions& options) {
  if (from.elements() != to.elements()) {
    return absl::InvalidArgumentError(absl::StrCat("a plan from a unit of ", from.elements(),
                                                   " elements to one of ", to.elements()));
  }
  if (Index(self) < 0 || Index(self) >= topology.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", Index(self), " of ", topology.size(), " ranks"));
  }
  if (options.chunk_bytes <= 0 || options.chunk_bytes % SizeOf(options.dtype) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk_bytes is ", options.chunk_bytes, "; it must be a positive multiple of ",
                     SizeOf(options.dtype), ", the size of ", Name(options.dtype)));
  }
  return absl::OkStatus();
}

}  // namespace strata
