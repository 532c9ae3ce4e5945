#pragma once

#include <bit>
#include <cstdint>

namespace strata {

// bfloat16 as its bits: the upper half of an f32.

constexpr float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; what exceeds the largest bf16 becomes infinite. A NaN keeps its
// sign and upper payload bits and becomes quiet, so that it can not round to infinity.
constexpr uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace strata
