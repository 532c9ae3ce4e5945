#include "runtime/clip.h"

#include <cmath>

namespace strata {

Clip MakeClip(double norm, float limit) {
  const double bound = limit;
  if (limit == 0 || norm <= bound) return {.factor = 1, .norm_after = norm};
  float factor = static_cast<float>(bound / norm);
  while (static_cast<double>(factor) * norm > bound) factor = std::nextafterf(factor, 0.0f);
  return {.factor = factor, .norm_after = static_cast<double>(factor) * norm};
}

}  // namespace strata
