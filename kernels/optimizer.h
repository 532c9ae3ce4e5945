#pragma once

#include "kernels/stream.h"

namespace strata {

// Optimizer updates on host memory; each returns when it is done. Any thread, no allocation. Every
// operation below is one IEEE operation in f32, rounded to nearest even, in the order written; the
// constants in brackets are computed once per call in fp64 from the call's values and rounded to
// f32. The order is that of PyTorch's AdamW and SGD (not fused, without foreach).

// Per element:
//   g = gradient · clip
//   p = parameters · [1 - learning_rate·weight_decay]
//   m = first_moment·beta1 + g·[1 - beta1]
//   v = second_moment·beta2 + ([1 - beta2]·g)·g
//   d = sqrt(v) / [sqrt(1 - beta2_power)] + epsilon
//   parameters = p + ([-learning_rate / (1 - beta1_power)]·m) / d,  first_moment = m,
//   second_moment = v
void AdamW(const AdamWCall& call);

// Per element:
//   g = gradient · clip + parameters·weight_decay      (without the sum when weight_decay is 0)
//   m = momentum·momentum_factor + g,  momentum = m    (m = g when momentum is null)
//   parameters = parameters + m·[-learning_rate]
// A momentum of zeros is the start: m is then g, as in PyTorch.
void Sgd(const SgdCall& call);

}  // namespace strata
