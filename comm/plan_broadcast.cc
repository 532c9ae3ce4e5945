#include <utility>
#include <vector>

#include "comm/plan.h"
#include "comm/plan_options.h"
#include "comm/plan_spread.h"
#include "kernels/status.h"

namespace strata {

absl::StatusOr<Plan> PlanBroadcast(const Topology& topology, int64_t bytes, Rank root, Rank self,
                                   const PlanOptions& options) {
  STRATA_RETURN_IF_ERROR(CheckPlanArguments(topology, bytes, self, options));
  STRATA_RETURN_IF_ERROR(CheckPlanArguments(topology, bytes, root, options));
  std::vector<SpreadSegment> segments;
  if (bytes > 0) {
    std::vector<Rank> everyone;
    for (int rank = 0; rank < topology.size(); ++rank) everyone.push_back(Rank{rank});
    segments.push_back({{0, bytes}, {root}, std::move(everyone), self == root ? 0 : -1, 0});
  }
  Plan shell{.name = "broadcast",
             .dtype = options.dtype,
             .input_bytes = self == root ? bytes : 0,
             .output_bytes = bytes};
  return PlanSpread(topology, segments, self, {options.chunk_bytes, SizeOf(options.dtype)},
                    std::move(shell));
}

}  // namespace strata
