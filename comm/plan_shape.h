#pragma once

#include <cstdint>
#include <vector>

#include "comm/plan.h"

namespace strata {

// What a runner works out once per plan: the DAG's edges the other way round, and how much room a
// run needs. Immutable.
struct PlanShape {
  // `level_count` levels have links; every transfer of the plan is on one of them.
  PlanShape(const Plan& plan, int level_count);

  std::span<const int> DependentsOf(int step) const {
    return {dependents.data() + first_dependent[step],
            static_cast<size_t>(first_dependent[step + 1] - first_dependent[step])};
  }

  std::vector<int> dependency_counts;  // per step
  std::vector<int> first_dependent;    // per step, and one past the end
  std::vector<int> dependents;
  std::vector<int> initial;           // steps without dependencies, in plan order
  std::vector<int> sends, transfers;  // per level
  int local_steps = 0;                // copies and reduces
};

}  // namespace strata
