#pragma once

namespace strata {

struct AdamWCall;
struct SgdCall;

// The constants of kernels/optimizer.h, computed once per call on the host, wherever the call runs.

struct AdamWFactors {
  float clip, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction, epsilon,
      minus_step_size;
};

struct SgdFactors {
  float clip, weight_decay, momentum_factor, minus_learning_rate;
};

AdamWFactors FactorsOf(const AdamWCall& call);
SgdFactors FactorsOf(const SgdCall& call);

}  // namespace strata
