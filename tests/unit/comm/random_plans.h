#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/plan.h"
#include "comm/topology.h"

namespace strata {

// Plans of all ranks that belong together and mean nothing: random sends, copies and sums of slots
// of f32, with the dependencies that their order needs. Each rank copies its input to its scratch,
// works there, and copies the result to its output.
struct RandomPlans {
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<std::vector<std::byte>> inputs;   // per rank
  std::vector<std::vector<std::byte>> outputs;  // per rank, worked out one step after the other
};

RandomPlans MakeRandomPlans(const Topology& topology, int steps, int64_t slot_elements,
                            uint64_t seed);

}  // namespace strata
