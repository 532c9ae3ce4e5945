#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/layout.h"
#include "comm/plan.h"
#include "comm/shard_layout.h"
#include "comm/topology.h"
#include "runtime/engine_options.h"

namespace strata {

// A plan and what it moves, counted once.
struct CountedPlan {
  std::shared_ptr<const Plan> plan;  // null: there is nothing to do
  std::vector<WireBytes> wire;       // per level
  int outermost = -1;                // level on which it moves bytes; -1: it moves none

  explicit operator bool() const { return plan != nullptr; }
};

// What a unit's shape leads to under one layout, for one rank. [Note: The way of a gradient]
//   micro-step: full ─micro→ gradients (accumulated in f32)
//   boundary:   gradients ─boundary→ reduced ─spread→ optimizer
//   and back:   optimizer ─publish→ parameters ─gather→ full
// A plan is null where both its ends are the same state.
struct UnitPlans {
  UnitShards shards;
  CountedPlan micro, boundary, spread, publish, gather;
};

// Builds plans once per number of elements. One thread.
class PlanCache {
 public:
  // `chunk_bytes` may be less than the options': a page of unit memory.
  PlanCache(const Topology& topology, Rank self, const EngineOptions& options);

  absl::StatusOr<UnitShards> Shards(int64_t elements) const;
  absl::StatusOr<std::shared_ptr<const UnitPlans>> Plans(int64_t elements, int64_t chunk_bytes);

 private:
  const Topology& topology_;
  const Rank self_;
  const EngineOptions& options_;
  std::map<int64_t, std::shared_ptr<const UnitPlans>> plans_;
};

absl::StatusOr<CountedPlan> CountPlan(absl::StatusOr<Plan> plan, const Topology& topology);

}  // namespace strata
