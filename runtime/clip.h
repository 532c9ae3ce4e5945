#pragma once

namespace strata {

// What clipping does to a step. [Note: Clip arithmetic] The factor is limit / norm in fp64, rounded
// to f32 and, where factor · norm (fp64) would exceed the limit, one f32 less, until it does not;
// it is 1 when the norm is within the limit or there is none (limit 0). Gradients are multiplied by
// it in f32. The norm after clipping is factor · norm, which so never exceeds the limit.
struct Clip {
  float factor = 1;
  double norm_after = 0;
};

// `norm` is finite and not negative.
Clip MakeClip(double norm, float limit);

}  // namespace strata
