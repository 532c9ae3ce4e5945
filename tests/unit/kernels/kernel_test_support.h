#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace strata {

// Around vectors, bodies of 64 and blocks of 256; a prime of many.
inline constexpr int64_t kSizes[] = {0, 1, 7, 63, 64, 65, 255, 256, 257, 1000003};

// Zeros, denormals, the ends of the range, what rounds to infinity in bf16, ties, infinities.
inline constexpr float kEdges[] = {
    0.0f,        -0.0f, 1e-45f,   -1e-45f,   1.17549421e-38f, 1.17549435e-38f,
    1.0f,        -1.0f, 3.4e38f,  -3.4e38f,  3.40282347e38f,  1.00390625f,
    1.01171875f, 0.1f,  INFINITY, -INFINITY, 65280.5f,        1e30f};

// Random sign and mantissa, exponents of 2^[-20, 20), so that sums round at every distance.
inline std::vector<float> RandomFloats(int64_t elements, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(elements);
  for (float& value : values) {
    const uint32_t bits = generator();
    const uint32_t exponent = 107 + (bits >> 23 & 0xff) % 40;
    value = std::bit_cast<float>((bits & 0x807fffff) | exponent << 23);
  }
  return values;
}

inline std::vector<uint16_t> RandomHalves(int64_t elements, uint32_t seed) {
  std::vector<uint16_t> halves;
  for (float value : RandomFloats(elements, seed)) {
    halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  }
  return halves;
}

// As bits, every NaN as one value: which NaN comes out of two is not promised.
inline uint32_t BitsOf(float value) {
  return std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
}
inline uint16_t BitsOf(uint16_t value) { return value; }

template <typename T>
void ExpectSameBits(std::span<const T> actual, std::span<const T> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (BitsOf(actual[i]) == BitsOf(expected[i])) continue;
    FAIL() << "element " << i << " of " << actual.size() << " is " << actual[i] << " ("
           << BitsOf(actual[i]) << "), not " << expected[i] << " (" << BitsOf(expected[i]) << ")";
  }
}
template <typename T>
void ExpectSameBits(const std::vector<T>& actual, const std::vector<T>& expected) {
  ExpectSameBits(std::span<const T>(actual), std::span<const T>(expected));
}

// Runs `body` once per instruction set of this processor, with the kernels confined to it.
inline void ForEachTarget(absl::FunctionRef<void()> body) {
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace strata
