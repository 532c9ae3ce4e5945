#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/plan.h"

namespace strata {

using Bytes = std::vector<std::byte>;

// Executes the plans of all ranks together in memory, in one of the orders that their dependencies
// allow, chosen by `seed`. Returns the outputs. Fails when steps wait for each other, when a send
// meets no receive of its size, when bytes are read before they are written, when an output byte is
// not written exactly once or when an input changes.
absl::StatusOr<std::vector<Bytes>> InterpretPlans(std::span<const Plan> plans,
                                                  const std::vector<Bytes>& inputs, uint64_t seed);

}  // namespace strata
