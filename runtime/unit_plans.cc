#include "runtime/unit_plans.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {

absl::StatusOr<CountedPlan> CountPlan(absl::StatusOr<Plan> plan, const Topology& topology) {
  if (!plan.ok()) return plan.status();
  CountedPlan counted;
  for (int level = 0; level < topology.level_count(); ++level) {
    counted.wire.push_back(CountWireBytes(*plan, level));
    if (counted.wire.back().sent + counted.wire.back().received > 0) counted.outermost = level;
  }
  counted.plan = std::make_shared<const Plan>(*std::move(plan));
  return counted;
}

PlanCache::PlanCache(const Topology& topology, Rank self, const EngineOptions& options)
    : topology_(topology), self_(self), options_(options) {}

absl::StatusOr<UnitShards> PlanCache::Shards(int64_t elements) const {
  return MakeUnitShards(topology_, options_.layout, elements);
}

absl::StatusOr<std::shared_ptr<const UnitPlans>> PlanCache::Plans(int64_t elements,
                                                                  int64_t chunk_bytes) {
  std::shared_ptr<const UnitPlans>& known = plans_[elements];
  if (known != nullptr) return known;

  STRATA_ASSIGN_OR_RETURN(UnitShards shards, Shards(elements));
  auto plans = std::make_shared<UnitPlans>(UnitPlans{std::move(shards)});
  const Layout& layout = options_.layout;
  const LevelSet all = LevelSet::All(topology_.level_count());
  const LevelSet rest = all.Without(layout.gradients);
  const UnitShards& s = plans->shards;
  const int64_t chunk = std::min(chunk_bytes, options_.chunk_bytes);
  const PlanOptions weights{.dtype = options_.compute_dtype, .chunk_bytes = chunk};
  const PlanOptions gradients{.dtype = options_.gradient_dtype, .chunk_bytes = chunk};
  const auto count = [this](absl::StatusOr<Plan> plan) {
    return CountPlan(std::move(plan), topology_);
  };
  if (!layout.gradients.empty()) {
    STRATA_ASSIGN_OR_RETURN(plans->micro, count(PlanReduce(topology_, s.full, s.gradients,
                                                           layout.gradients, self_, gradients)));
  }
  if (!rest.empty()) {
    STRATA_ASSIGN_OR_RETURN(plans->boundary, count(PlanReduce(topology_, s.gradients, s.reduced,
                                                              rest, self_, gradients)));
  }
  if (!(layout.optimizer == all)) {
    STRATA_ASSIGN_OR_RETURN(plans->spread,
                            count(PlanGather(topology_, s.reduced, s.optimizer, self_, gradients)));
  }
  if (!(layout.parameters == layout.optimizer)) {
    STRATA_ASSIGN_OR_RETURN(
        plans->publish, count(PlanGather(topology_, s.optimizer, s.parameters, self_, weights)));
  }
  if (!layout.parameters.empty()) {
    STRATA_ASSIGN_OR_RETURN(plans->gather,
                            count(PlanGather(topology_, s.parameters, s.full, self_, weights)));
  }
  known = std::move(plans);
  return known;
}

}  // namespace strata
