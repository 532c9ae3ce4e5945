#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "cli/bench/operation.h"

namespace strata {

// Known data. What is moved depends on who gave it and on its place; what is added are small
// integers, so that sums are exact in either type.

// Writes what `self` gives; `input` is the operation's input.
void FillInput(const Operation& operation, const Topology& topology, Rank self,
               std::span<std::byte> input);

// DataLoss, with the number of wrong elements and the first one, unless `output` is what `self`
// must get.
absl::Status VerifyOutput(const Operation& operation, const Topology& topology, Rank self,
                          std::span<const std::byte> output);

}  // namespace strata
