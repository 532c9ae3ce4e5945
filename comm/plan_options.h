#pragma once

#include "absl/status/status.h"
#include "comm/plan.h"

namespace strata {

// InvalidArgument unless `from` and `to` are of one unit, `self` is in the topology and chunks are
// a positive number of whole elements.
absl::Status CheckPlanArguments(const Topology& topology, const ShardLayout& from,
                                const ShardLayout& to, Rank self, const PlanOptions& options);

// The same for a plan that moves `bytes` bytes, which must be whole elements.
absl::Status CheckPlanArguments(const Topology& topology, int64_t bytes, Rank self,
                                const PlanOptions& options);

}  // namespace strata
