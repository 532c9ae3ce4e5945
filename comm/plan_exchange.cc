#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/plan.h"
#include "comm/plan_spread.h"

namespace strata {

absl::StatusOr<Plan> PlanExchange(const Topology& topology, int64_t record_bytes, Rank self) {
  if (record_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a record of ", record_bytes, " bytes"));
  }
  std::vector<Rank> everyone;
  for (int rank = 0; rank < topology.size(); ++rank) everyone.push_back(Rank{rank});
  std::vector<SpreadSegment> segments;
  for (Rank rank : everyone) {
    const int64_t begin = Index(rank) * record_bytes;
    if (record_bytes == 0) break;
    segments.push_back(
        {{begin, begin + record_bytes}, {rank}, everyone, rank == self ? 0 : -1, begin});
  }
  Plan shell{.name = "exchange",
             .input_bytes = record_bytes,
             .output_bytes = record_bytes * topology.size()};
  // One message per record: no cut.
  const int64_t chunk_bytes = std::max<int64_t>(shell.output_bytes, 1);
  return PlanSpread(topology, segments, self, {chunk_bytes, 1}, std::move(shell));
}

}  // namespace strata
