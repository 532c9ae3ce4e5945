#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/types.h"

namespace strata {

// What a training run of the toy model must give, computed in one place: its own tree, nothing of
// comm, scheduler or runtime.
struct ReferenceRun {
  std::vector<int> nodes{1};                // ranks per node
  std::vector<std::vector<int64_t>> units;  // elements of each parameter of each unit
  int steps = 3;
  int accumulation = 1;
  int levels_per_micro_step = 0;  // innermost levels that reduce in every micro-step: 0, 1 or 2
  DType compute_dtype = DType::kF32, gradient_dtype = DType::kF32;
  bool adam = true;
  float momentum = 0;
  float weight_decay = 0.1f;
  float clip = 0;
  uint64_t seed = 1;

  // What makes the result another one.
  bool swap_data = false;     // positions 0 and the last exchange their data
  bool reverse_tree = false;  // leaves are added from the other end
  // Whether a rank has a gradient of a unit in a micro-step; null: always. A unit for which no rank
  // has any in a step is not updated.
  std::function<bool(int rank, int step, int micro, int unit)> has_gradient;
};

struct ReferenceResult {
  std::string digest;         // SHA-256 over all master parameters in order, hex
  std::vector<double> norms;  // before clipping, per step
  std::vector<double> losses;
};

ReferenceResult RunReference(const ReferenceRun& run);

}  // namespace strata
