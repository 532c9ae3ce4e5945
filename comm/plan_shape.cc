#include "comm/plan_shape.h"

#include "kernels/status.h"

namespace strata {

PlanShape::PlanShape(const Plan& plan, int level_count)
    : sends(level_count), transfers(level_count) {
  const int count = static_cast<int>(plan.steps.size());
  first_dependent.resize(count + 1);
  // Through the steps, as several may share a list of dependencies.
  for (const Step& step : plan.steps) {
    for (const int dependency : plan.DependenciesOf(step)) ++first_dependent[dependency + 1];
  }
  for (int step = 0; step < count; ++step) first_dependent[step + 1] += first_dependent[step];
  dependents.resize(first_dependent.back());
  std::vector<int> filled(first_dependent.begin(), first_dependent.end());
  for (int step = 0; step < count; ++step) {
    const Step& what = plan.steps[step];
    dependency_counts.push_back(what.dependency_count);
    if (what.dependency_count == 0) initial.push_back(step);
    for (const int dependency : plan.DependenciesOf(what)) {
      dependents[filled[dependency]++] = step;
    }
    if (what.op == Op::kCopy || what.op == Op::kReduce) {
      ++local_steps;
      continue;
    }
    STRATA_CHECK(what.level >= 0 && what.level < level_count);
    ++transfers[what.level];
    if (what.op == Op::kSend) ++sends[what.level];
  }
}

}  // namespace strata
