#include "kernels/norm.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/types.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/kernels/kernel_test_support.h"

namespace strata {
namespace {

using testing::HasSubstr;

// The sum of squares of one block in the documented order.
double ReferenceBlock(std::span<const float> block) {
  double lanes[32] = {};
  for (size_t i = 0; i < block.size(); ++i) lanes[i % 32] += double{block[i]} * double{block[i]};
  for (int half = 16; half >= 1; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// Exact sum of fp64 values, as an unsigned number of 2^-320 kept bit by bit, rounded to fp64.
class ExactSum {
 public:
  void Add(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // [0.5, 1) · 2^exponent
    auto digits = static_cast<uint64_t>(std::ldexp(fraction, 53));
    for (int bit = exponent - 53 + 320; digits != 0; digits >>= 1, ++bit) {
      if (digits & 1) Carry(bit);
    }
  }
  double Rounded() const {
    int top = kBits - 1;
    while (top >= 0 && !bits_[top]) --top;
    if (top < 0) return 0;
    double value = 0;
    for (int bit = top; bit > top - 53; --bit) value = 2 * value + Bit(bit);
    bool below_half = false;
    for (int bit = 0; bit < top - 53; ++bit) below_half |= bits_[bit];
    const bool half = Bit(top - 53);
    if (half && (below_half || std::fmod(value, 2) == 1)) value += 1;
    return std::ldexp(value, top - 52 - 320);
  }

 private:
  static constexpr int kBits = 700;
  bool Bit(int bit) const { return bit >= 0 && bits_[bit]; }
  void Carry(int bit) {
    ASSERT_GE(bit, 0);
    for (; bits_[bit]; ++bit) bits_[bit] = false;
    bits_[bit] = true;
  }
  std::vector<bool> bits_ = std::vector<bool>(kBits);
};

double ReferenceSum(std::span<const float> elements) {
  ExactSum sum;
  while (!elements.empty()) {
    const size_t count = std::min<size_t>(elements.size(), kBlockElements);
    if (const double block = ReferenceBlock(elements.first(count)); block != 0) sum.Add(block);
    elements = elements.subspan(count);
  }
  return sum.Rounded();
}

NormSum SumOf(std::span<const float> elements) {
  NormSum sum;
  sum.AddBlocks(elements);
  return sum;
}

// Magnitudes over the whole range of f32, denormals included.
std::vector<float> WideFloats(int64_t elements, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values;
  while (static_cast<int64_t>(values.size()) < elements) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

TEST(NormSum, EqualsTheExactSumOfBlocksRoundedOnce) {
  ForEachTarget([] {
    for (int64_t n : kSizes) {
      const auto values = RandomFloats(n, 1);
      EXPECT_EQ(SumOf(values).Value(), ReferenceSum(values)) << n;
      EXPECT_EQ(SumOf(values).Sqrt(), std::sqrt(ReferenceSum(values))) << n;
    }
    const auto wide = WideFloats(30011, 2);
    EXPECT_EQ(SumOf(wide).Value(), ReferenceSum(wide));
  });
}

// Each block by itself: in a sum of many, the last bits of one block are rounded away.
TEST(NormSum, BlocksAreSummedInTheDocumentedOrder) {
  ForEachTarget([] {
    std::mt19937 generator(10);
    std::uniform_real_distribution<float> mantissa(1, 2);  // squares of 48 bits
    std::vector<float> block(kBlockElements);
    int differs_in_order = 0;
    for (int trial = 0; trial < 1000; ++trial) {
      for (float& value : block) {
        value = std::ldexp(mantissa(generator), static_cast<int>(generator() % 9));
      }
      EXPECT_EQ(SumOf(block).Value(), ReferenceBlock(block));
      double straight = 0;
      for (float value : block) straight += double{value} * double{value};
      if (straight != ReferenceBlock(block)) ++differs_in_order;
    }
    EXPECT_GT(differs_in_order, 100);
  });
}

TEST(NormSum, EveryMagnitudeAlone) {
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const float value = std::ldexp(1.0f, exponent);
    EXPECT_EQ(SumOf({&value, 1}).Value(), std::ldexp(1.0, 2 * exponent));
    const float odd = std::nextafter(value, 0.0f);
    EXPECT_EQ(SumOf({&odd, 1}).Value(), double{odd} * double{odd});
  }
}

TEST(NormSum, RoundsTiesToEvenAndSeesWhatIsFarBelow) {
  // 2^54 as one block, and 1, 2, 3 or 6 by blocks of their own: fp64 counts in fours up there.
  const float large = 0x1p27f, one = 1, root2_square[] = {1, 1}, tiny = 0x1p-149f;
  NormSum sum = SumOf({&large, 1});
  sum.AddBlocks({&one, 1});
  EXPECT_EQ(sum.Value(), 0x1p54);
  sum.AddBlocks({&one, 1});
  EXPECT_EQ(sum.Value(), 0x1p54);  // a tie, to even
  NormSum above = sum;
  above.AddBlocks({&tiny, 1});
  EXPECT_EQ(above.Value(), 0x1p54 + 4);  // the tie broken by the least square there is
  sum.AddBlocks({root2_square, 2});
  sum.AddBlocks({root2_square, 2});
  EXPECT_EQ(sum.Value(), 0x1p54 + 8);  // 6: a tie again, between 4 and 8
}

TEST(NormSum, CarriesRunThroughManyLimbs) {
  // All bits from 2^-298 to 2^255 set; adding the least square clears them and sets one.
  NormSum sum;
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const float value = std::ldexp(1.0f, exponent);
    for (int i = 0; i < 3; ++i) sum.AddBlocks({&value, 1});  // bits 2·exponent and the next
  }
  const float least = 0x1p-149f;
  sum.AddBlocks({&least, 1});
  EXPECT_EQ(sum.Value(), 0x1p256);
  NormSum::Wire wire = sum.ToWire();
  EXPECT_EQ(std::count(wire.begin(), wire.end(), std::byte{0}), NormSum::kWireBytes - 1);
}

TEST(NormSum, AnyOrderAndAnyPartitionOfBlocksGivesTheSameBits) {
  constexpr int64_t kBlocks = 257;
  const auto values = WideFloats((kBlocks - 1) * kBlockElements + 91, 3);
  const auto block = [&](int64_t b) {
    const int64_t first = b * kBlockElements;
    return std::span(values).subspan(
        first, std::min<int64_t>(kBlockElements, static_cast<int64_t>(values.size()) - first));
  };
  const NormSum whole = SumOf(values);
  std::mt19937 generator(4);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int64_t> order(kBlocks);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), generator);
    std::vector<NormSum> holders(1 + trial % 7);
    for (int64_t b : order) holders[generator() % holders.size()].AddBlocks(block(b));
    std::shuffle(holders.begin(), holders.end(), generator);
    NormSum merged;
    for (const NormSum& holder : holders) merged.Add(holder);
    ASSERT_EQ(merged, whole);
    ASSERT_EQ(merged.ToWire(), whole.ToWire());
  }
}

TEST(NormSum, ContiguousPiecesEqualTheWhole) {
  const auto values = RandomFloats(40 * kBlockElements + 1, 5);
  const NormSum whole = SumOf(values);
  for (int64_t blocks : {1, 2, 3, 7, 39, 64}) {
    NormSum sum;
    std::span<const float> rest = values;
    while (!rest.empty()) {
      const size_t count = std::min<size_t>(rest.size(), blocks * kBlockElements);
      sum.AddBlocks(rest.first(count));
      rest = rest.subspan(count);
    }
    EXPECT_EQ(sum, whole);
  }
}

// A plain fp64 sum fails this: the check above can tell.
TEST(NormSum, ThePlainSumDependsOnOrder) {
  const auto values = RandomFloats(100 * kBlockElements, 6);
  std::vector<double> blocks;
  for (int64_t b = 0; b < 100; ++b) {
    blocks.push_back(ReferenceBlock(std::span(values).subspan(b * kBlockElements, kBlockElements)));
  }
  const double forwards = std::accumulate(blocks.begin(), blocks.end(), 0.0);
  std::reverse(blocks.begin(), blocks.end());
  EXPECT_NE(forwards, std::accumulate(blocks.begin(), blocks.end(), 0.0));
}

TEST(NormSum, PartialBlockIsFilledWithZeros) {
  for (int64_t n : {1, 7, 31, 32, 33, 255}) {
    auto values = RandomFloats(n, 7);
    const NormSum partial = SumOf(values);
    values.resize(kBlockElements, 0.0f);
    EXPECT_EQ(partial, SumOf(values));
  }
}

TEST(NormSum, InfinityAndNanAreFlagsInAnyOrder) {
  const auto values = RandomFloats(300, 8);
  const float infinite = -INFINITY, nan = NAN;
  NormSum sum = SumOf(values);
  EXPECT_TRUE(sum.finite());
  sum.AddBlocks({&infinite, 1});
  EXPECT_FALSE(sum.finite());
  EXPECT_EQ(sum.Value(), INFINITY);
  EXPECT_EQ(sum.Sqrt(), INFINITY);
  NormSum other = SumOf({&nan, 1});
  EXPECT_FALSE(other.finite());
  EXPECT_TRUE(std::isnan(other.Value()));
  NormSum left = sum, right = other;
  left.Add(other);
  right.Add(sum);
  EXPECT_EQ(left, right);
  EXPECT_TRUE(std::isnan(left.Value()));
  const auto back = NormSum::FromWire(left.ToWire());
  ASSERT_OK(back);
  EXPECT_EQ(*back, left);
}

TEST(NormSum, MinusZeroAndEmptyAreZero) {
  const float zeros[] = {-0.0f, 0.0f};
  EXPECT_EQ(SumOf(zeros), NormSum());
  EXPECT_EQ(SumOf({}), NormSum());
  EXPECT_EQ(NormSum().Value(), 0);
  EXPECT_EQ(NormSum().Sqrt(), 0);
}

TEST(NormSum, WireIsLittleEndianAndChecked) {
  const float least = 0x1p-149f, one = 1;
  NormSum::Wire expected = {};
  expected[0] = std::byte{1};
  EXPECT_EQ(SumOf({&least, 1}).ToWire(), expected);
  expected[0] = std::byte{0};
  expected[298 / 8] = std::byte{1 << (298 % 8)};
  EXPECT_EQ(SumOf({&one, 1}).ToWire(), expected);
  const auto values = WideFloats(3001, 9);
  const auto back = NormSum::FromWire(SumOf(values).ToWire());
  ASSERT_OK(back);
  EXPECT_EQ(*back, SumOf(values));
  expected[80] = std::byte{4};
  EXPECT_THAT(NormSum::FromWire(expected),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("flags 4")));
}

}  // namespace
}  // namespace strata
