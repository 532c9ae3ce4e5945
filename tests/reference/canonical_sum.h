#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/types.h"

namespace strata {

using Values = std::vector<float>;

inline float RoundTo(DType dtype, float value) {
  return dtype == DType::kF32 ? value : Bf16ToF32(F32ToBf16(value));
}

// The canonical sum of parts[begin, end): a binary tree, halves of sizes ceil and floor, each sum
// rounded once.
inline Values TreeSum(const std::vector<Values>& parts, size_t begin, size_t end, DType dtype) {
  if (end - begin == 1) return parts[begin];
  const size_t middle = begin + (end - begin + 1) / 2;
  Values sum = TreeSum(parts, begin, middle, dtype);
  const Values right = TreeSum(parts, middle, end, dtype);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = RoundTo(dtype, sum[i] + right[i]);
  return sum;
}

}  // namespace strata
