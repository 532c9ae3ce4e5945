#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/plan.h"
#include "comm/plan_options.h"
#include "comm/plan_spread.h"
#include "comm/segments.h"
#include "kernels/status.h"

namespace strata {

absl::StatusOr<Plan> PlanGather(const Topology& topology, const ShardLayout& from,
                                const ShardLayout& to, Rank self, const PlanOptions& options) {
  STRATA_RETURN_IF_ERROR(CheckPlanArguments(topology, from, to, self, options));
  const int64_t element_bytes = SizeOf(options.dtype);
  const auto offset = [&](const ShardLayout& state, ElementRange range) {
    const int64_t packed = state.PackedOffset(self, range.begin);
    return packed < 0 ? -1 : packed * element_bytes;
  };
  std::vector<SpreadSegment> segments;
  for (Segment& segment : CommonSegments(from, to, topology.size())) {
    if (segment.from.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("elements ", segment.range.begin, " to ",
                                                     segment.range.end, " are held by no rank"));
    }
    segments.push_back({InBytes(segment.range, element_bytes), std::move(segment.from),
                        std::move(segment.to), offset(from, segment.range),
                        offset(to, segment.range)});
  }
  Plan shell{.name = "gather",
             .dtype = options.dtype,
             .input_bytes = from.OwnedElements(self) * element_bytes,
             .output_bytes = to.OwnedElements(self) * element_bytes};
  return PlanSpread(topology, segments, self, {options.chunk_bytes, kBlockElements * element_bytes},
                    std::move(shell));
}

}  // namespace strata
