#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "comm/layout.h"
#include "comm/topology.h"

namespace strata {

// What one training step is made of, as far as its least time depends on it.
struct StepShape {
  Layout layout;
  int accumulation = 1;              // micro-steps A
  absl::Duration forward, backward;  // compute of one micro-step
  int64_t parameter_bytes = 0;       // M_w: all parameters in the compute type
  int64_t gradient_bytes = 0;        // M_g: all gradients in the gradient type
};

// Bytes that the busiest group of `level` sends in one direction in one step:
// (d-1)/d · (2A·M_w·[P] + M_g·(A·[G] + [O and not G] + 2·[not O]) + M_w·[O and not P]).
double StepBytes(const StepShape& shape, int level, int degree);

// T*: the least time of the step on the slowest level, given full overlap.
absl::Duration IdealStep(const StepShape& shape, const Topology& topology);

}  // namespace strata
