#pragma once

#include <cstdint>

namespace strata {

// sums[b] = the sum of squares of block b of `blocks` whole blocks at `src`, see
// [Note: Order-free sum of squares] in kernels/norm.h.
void BlockSquares(const float* src, int64_t blocks, double* sums);

}  // namespace strata
