#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/types.h"

namespace strata {

// What one addition in a dtype is, for tests: operands widened to f32, added, rounded to nearest
// even. Elements are handled as their bits.
inline float WidenReference(DType dtype, uint32_t bits) {
  return std::bit_cast<float>(dtype == DType::kF32 ? bits : bits << 16);
}

inline uint32_t NarrowReference(DType dtype, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (dtype == DType::kF32) return bits;
  const uint32_t upper = bits >> 16, lower = bits & 0xffff;
  const bool up = lower > 0x8000 || (lower == 0x8000 && (upper & 1) != 0);
  return upper + (up ? 1 : 0);
}

inline uint32_t AddReference(DType dtype, uint32_t a, uint32_t b) {
  return NarrowReference(dtype, WidenReference(dtype, a) + WidenReference(dtype, b));
}

inline uint32_t LoadReference(DType dtype, const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, SizeOf(dtype));
  return bits;
}

inline void StoreReference(DType dtype, std::byte* at, uint32_t bits) {
  std::memcpy(at, &bits, SizeOf(dtype));
}

}  // namespace strata
