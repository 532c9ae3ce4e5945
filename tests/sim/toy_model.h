#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/random.h"
#include "kernels/types.h"

namespace strata::toy {

// A model small enough for thousands of runs: the gradient of each parameter depends on the
// parameter, on the data (seed, step, micro-step, position) and on its place, in f32.
struct Data {
  uint64_t seed = 1;
  int position = 0;
  int step = 0;
  int micro = 0;
};

inline float Widen(uint16_t bf16) {
  const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

// To nearest even; values of this model are finite.
inline uint16_t Narrow(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float Round(float value, DType dtype) {
  return dtype == DType::kF32 ? value : Widen(Narrow(value));
}

inline float Noise(const Data& data, int unit, int64_t element) {
  const std::array<uint32_t, 4> words = Philox(
      {static_cast<uint32_t>(element), static_cast<uint32_t>(unit),
       static_cast<uint32_t>(data.step * 1000 + data.micro), static_cast<uint32_t>(data.position)},
      {static_cast<uint32_t>(data.seed), static_cast<uint32_t>(data.seed >> 32)});
  return UniformFloat(words[0]) - 0.5f;
}

// Of one element, given its value in the compute type.
inline float Gradient(float value, const Data& data, int unit, int64_t element) {
  return value * 0.25f + Noise(data, unit, element);
}

inline float Initial(uint64_t seed, int unit, int64_t element) {
  return Noise({.seed = seed ^ 0x5eed, .position = 1 << 20}, unit, element);
}

}  // namespace strata::toy
