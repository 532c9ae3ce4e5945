#include "comm/plan_options.h"

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

absl::Status CheckSelfAndChunk(const Topology& topology, Rank self, const PlanOptions& options) {
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

}  // namespace

absl::Status CheckPlanArguments(const Topology& topology, const ShardLayout& from,
                                const ShardLayout& to, Rank self, const PlanOptions& options) {
  if (from.elements() != to.elements()) {
    return absl::InvalidArgumentError(absl::StrCat("a plan from a unit of ", from.elements(),
                                                   " elements to one of ", to.elements()));
  }
  return CheckSelfAndChunk(topology, self, options);
}

absl::Status CheckPlanArguments(const Topology& topology, int64_t bytes, Rank self,
                                const PlanOptions& options) {
  if (bytes < 0 || bytes % SizeOf(options.dtype) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes are not a whole number of ",
                                                   SizeOf(options.dtype), "-byte elements (",
                                                   Name(options.dtype), ")"));
  }
  return CheckSelfAndChunk(topology, self, options);
}

}  // namespace strata
