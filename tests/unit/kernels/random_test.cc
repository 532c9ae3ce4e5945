#include "kernels/random.h"

#include <set>

#include "gtest/gtest.h"
#include "tests/unit/kernels/kernel_test_support.h"

namespace strata {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that Random123 is distributed with (kat_vectors, philox 4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, EndsAndSteps) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_EQ(UniformFloat(255), 0.0f);
  EXPECT_EQ(UniformFloat(256), 0x1p-24f);
  EXPECT_EQ(UniformFloat(~0u), 1.0f - 0x1p-24f);
}

// The distribution function of what Normal returns, by the C library's erfc, is the fraction asked
// for: a relative error of 1e-6 in the quantile z changes the tail by 1e-6 · z² at most.
TEST(Normal, InvertsTheDistributionFunction) {
  double previous = -10;
  for (uint64_t word = 0; word < (uint64_t{1} << 32); word += 65521) {
    const double p = (static_cast<double>(word) + 0.5) * 0x1p-32;
    const double z = Normal(static_cast<uint32_t>(word));
    ASSERT_GT(z, previous) << word;
    previous = z;
    const double tail = std::erfc(std::fabs(z) / std::sqrt(2.0)) / 2;
    const double expected = std::min(p, 1 - p);
    ASSERT_NEAR(tail / expected, 1, 1e-6 * (1 + z * z)) << word;
  }
}

TEST(Normal, IsOddAndReachesItsEnds) {
  for (uint32_t word : {0u, 1u, 12345u, 1u << 29, (1u << 31) - 1}) {
    EXPECT_EQ(Normal(word), -Normal(~word)) << word;
  }
  EXPECT_NEAR(Normal(0), -6.338, 1e-3);
}

// Fixed for good: parameters of every model made so far depend on them.
TEST(Fill, GoldenBits) {
  std::vector<float> normal(5), uniform(5);
  FillNormal(1, "h.0.attn.weight", 0, normal, 0, 1);
  FillUniform(1, "h.0.attn.weight", 0, uniform, -1, 1);
  std::vector<uint32_t> normal_bits, uniform_bits;
  for (float value : normal) normal_bits.push_back(std::bit_cast<uint32_t>(value));
  for (float value : uniform) uniform_bits.push_back(std::bit_cast<uint32_t>(value));
  EXPECT_EQ(normal_bits,
            (std::vector<uint32_t>{3216159194, 3209414515, 3216450294, 1068374890, 1036669277}));
  EXPECT_EQ(uniform_bits,
            (std::vector<uint32_t>{3210107234, 3205689352, 3210278330, 1062437956, 1033972224}));
}

TEST(Fill, ElementsDoNotDependOnHowARangeIsCut) {
  std::vector<float> whole(1003), uniform(1003);
  FillNormal(7, "w", 0, whole, 0.5, 0.02);
  FillUniform(7, "w", 0, uniform, -1, 1);
  for (int64_t first = 0; first < 9; ++first) {
    for (int64_t n : {0, 1, 2, 3, 5, 7, 255, 256, 257, 994}) {
      std::vector<float> piece(n), uniform_piece(n);
      FillNormal(7, "w", first, piece, 0.5, 0.02);
      FillUniform(7, "w", first, uniform_piece, -1, 1);
      ExpectSameBits(std::span<const float>(piece),
                     std::span<const float>(whole).subspan(first, n));
      ExpectSameBits(std::span<const float>(uniform_piece),
                     std::span<const float>(uniform).subspan(first, n));
    }
  }
}

TEST(Fill, ElementsBeyondFourBillionGroupsDiffer) {
  std::vector<float> low(4), high(4);
  FillUniform(7, "w", 0, low, 0, 1);
  FillUniform(7, "w", int64_t{1} << 34, high, 0, 1);
  EXPECT_NE(low, high);
}

TEST(Fill, SeedAndNameMakeOtherNumbers) {
  std::set<std::vector<float>> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (const char* name : {"", "w", "v", "w.bias"}) {
      std::vector<float> values(4);
      FillUniform(seed, name, 0, values, 0, 1);
      EXPECT_TRUE(seen.insert(values).second) << seed << " " << name;
    }
  }
}

// A fixed sample, so these can not fail by chance: the mean of n has a deviation of 1/sqrt(n).
TEST(Fill, MomentsOfALargeSample) {
  constexpr int64_t kElements = 1000003;
  std::vector<float> values(kElements);
  FillNormal(42, "w", 0, values, 3, 2);
  double sum = 0, squares = 0;
  for (float value : values) {
    sum += value;
    squares += (value - 3.0) * (value - 3.0);
  }
  EXPECT_NEAR(sum / kElements, 3, 5 * 2 / std::sqrt(kElements));
  EXPECT_NEAR(squares / kElements, 4, 5 * 4 * std::sqrt(2.0 / kElements));
  FillUniform(42, "w", 0, values, -2, 6);
  sum = 0;
  for (float value : values) {
    ASSERT_GE(value, -2);
    ASSERT_LE(value, 6);
    sum += value;
  }
  EXPECT_NEAR(sum / kElements, 2, 5 * 8 / std::sqrt(12.0 * kElements));
}

}  // namespace
}  // namespace strata
