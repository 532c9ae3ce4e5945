#include "kernels/elementwise.h"

#include <cstring>
#include <iterator>

#include "gtest/gtest.h"
#include "kernels/bf16.h"
#include "tests/unit/kernels/kernel_test_support.h"

namespace strata {
namespace {

// The bf16 next to `value`, by comparing distances in fp64: no bit tricks shared with the kernel.
uint16_t ReferenceBf16(float value) {
  const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  if (std::isnan(value)) return below | 0x40;
  const auto above = static_cast<uint16_t>(below + 1);  // away from zero
  if (std::isinf(value)) return below;
  const auto widen = [](uint16_t bits) -> double {
    const float wide = std::bit_cast<float>(uint32_t{bits} << 16);
    return std::isinf(wide) ? std::copysign(0x1p128, wide) : wide;
  };
  const double down = std::fabs(value - widen(below)), up = std::fabs(widen(above) - value);
  if (down != up) return down < up ? below : above;
  return below % 2 == 0 ? below : above;
}

std::vector<float> Widened(const std::vector<uint16_t>& halves) {
  std::vector<float> floats;
  for (uint16_t half : halves) floats.push_back(Bf16ToF32(half));
  return floats;
}

std::vector<uint16_t> Narrowed(const std::vector<float>& floats) {
  std::vector<uint16_t> halves;
  for (float value : floats) halves.push_back(ReferenceBf16(value));
  return halves;
}

std::vector<float> Sums(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> sums(a.size());
  for (size_t i = 0; i < a.size(); ++i) sums[i] = a[i] + b[i];
  return sums;
}

// Every edge with every edge, and NaN with each.
std::pair<std::vector<float>, std::vector<float>> EdgePairs() {
  std::vector<float> edges(std::begin(kEdges), std::end(kEdges)), a, b;
  edges.push_back(NAN);
  for (float x : edges) {
    for (float y : edges) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  return {a, b};
}

TEST(Bf16, EveryBf16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float wide = Bf16ToF32(static_cast<uint16_t>(bits));
    EXPECT_EQ(F32ToBf16(wide), std::isnan(wide) ? bits | 0x40 : bits);
  }
}

TEST(Bf16, RoundsToTheNearestEven) {
  for (float edge : kEdges) EXPECT_EQ(F32ToBf16(edge), ReferenceBf16(edge)) << edge;
  for (float value : RandomFloats(100003, 1)) ASSERT_EQ(F32ToBf16(value), ReferenceBf16(value));
  // All ties of one binade, and their neighbours.
  for (uint32_t upper = 0x3f80; upper < 0x4000; ++upper) {
    for (uint32_t lower : {0x7fffu, 0x8000u, 0x8001u}) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      ASSERT_EQ(F32ToBf16(value), ReferenceBf16(value)) << value;
    }
  }
}

TEST(Bf16, NanStaysNanWhereItsPayloadIsInTheLowerHalf) {
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(F32ToBf16(std::bit_cast<float>(0xff800001u)), 0xffc0);
  EXPECT_EQ(F32ToBf16(3.4e38f), 0x7f80);  // larger than the largest bf16
}

TEST(Elementwise, AddF32) {
  ForEachTarget([] {
    for (int64_t n : kSizes) {
      const auto a = RandomFloats(n, 1), b = RandomFloats(n, 2);
      std::vector<float> sum(n);
      Add({DType::kF32, sum.data(), a.data(), b.data(), n});
      ExpectSameBits(sum, Sums(a, b));
    }
    const auto [a, b] = EdgePairs();
    std::vector<float> sum(a.size());
    Add({DType::kF32, sum.data(), a.data(), b.data(), static_cast<int64_t>(a.size())});
    ExpectSameBits(sum, Sums(a, b));
  });
}

TEST(Elementwise, AddBf16) {
  ForEachTarget([] {
    for (int64_t n : kSizes) {
      const auto a = RandomHalves(n, 1), b = RandomHalves(n, 2);
      std::vector<uint16_t> sum(n);
      Add({DType::kBf16, sum.data(), a.data(), b.data(), n});
      ExpectSameBits(sum, Narrowed(Sums(Widened(a), Widened(b))));
    }
    const auto [a, b] = EdgePairs();
    const auto a16 = Narrowed(a), b16 = Narrowed(b);
    std::vector<uint16_t> sum(a.size());
    Add({DType::kBf16, sum.data(), a16.data(), b16.data(), static_cast<int64_t>(a.size())});
    ExpectSameBits(Widened(sum), Widened(Narrowed(Sums(Widened(a16), Widened(b16)))));
  });
}

TEST(Elementwise, AddInPlaceFromEitherSide) {
  const auto a = RandomFloats(257, 1), b = RandomFloats(257, 2);
  auto left = a, right = b, doubled = a;
  Add({DType::kF32, left.data(), left.data(), b.data(), 257});
  Add({DType::kF32, right.data(), a.data(), right.data(), 257});
  Add({DType::kF32, doubled.data(), doubled.data(), doubled.data(), 257});
  ExpectSameBits(left, Sums(a, b));
  ExpectSameBits(right, Sums(a, b));
  ExpectSameBits(doubled, Sums(a, a));
}

TEST(Elementwise, ConvertBothWays) {
  ForEachTarget([] {
    for (int64_t n : kSizes) {
      auto wide = RandomFloats(n, 3);
      for (size_t i = 0; i < std::size(kEdges) && i < wide.size(); ++i) wide[i] = kEdges[i];
      std::vector<uint16_t> narrow(n);
      Convert({DType::kBf16, narrow.data(), DType::kF32, wide.data(), n});
      ExpectSameBits(narrow, Narrowed(wide));
      std::vector<float> back(n);
      Convert({DType::kF32, back.data(), DType::kBf16, narrow.data(), n});
      ExpectSameBits(back, Widened(narrow));
    }
    const std::vector<uint32_t> nans = {0x7f800001, 0xff800001, 0x7fffffff, 0xffc12345};
    std::vector<uint16_t> narrow(nans.size());
    Convert({DType::kBf16, narrow.data(), DType::kF32, nans.data(), 4});
    EXPECT_EQ(narrow, (std::vector<uint16_t>{0x7fc0, 0xffc0, 0x7fff, 0xffc1}));
  });
}

TEST(Elementwise, ConvertToTheSameTypeCopies) {
  const auto wide = RandomFloats(257, 3);
  std::vector<float> copy(257);
  Convert({DType::kF32, copy.data(), DType::kF32, wide.data(), 257});
  ExpectSameBits(copy, wide);
  const auto narrow = RandomHalves(257, 3);
  std::vector<uint16_t> narrow_copy(257);
  Convert({DType::kBf16, narrow_copy.data(), DType::kBf16, narrow.data(), 257});
  ExpectSameBits(narrow_copy, narrow);
}

TEST(Elementwise, AccumulateSetsThenAdds) {
  ForEachTarget([] {
    for (int64_t n : kSizes) {
      const auto wide = RandomFloats(n, 4);
      const auto narrow = RandomHalves(n, 5);
      std::vector<float> sum(n, NAN);
      Accumulate({Accumulation::kSet, sum.data(), DType::kF32, wide.data(), n});
      ExpectSameBits(sum, wide);
      Accumulate({Accumulation::kAdd, sum.data(), DType::kBf16, narrow.data(), n});
      const auto two = Sums(wide, Widened(narrow));
      ExpectSameBits(sum, two);
      Accumulate({Accumulation::kAdd, sum.data(), DType::kF32, wide.data(), n});
      ExpectSameBits(sum, Sums(two, wide));
      Accumulate({Accumulation::kSet, sum.data(), DType::kBf16, narrow.data(), n});
      ExpectSameBits(sum, Widened(narrow));
    }
  });
}

TEST(Elementwise, SetKeepsMinusZeroWhereAddingToZeroWouldNot) {
  const std::vector<float> src(65, -0.0f);
  std::vector<float> dst(65, 0.0f);
  Accumulate({Accumulation::kSet, dst.data(), DType::kF32, src.data(), 65});
  ExpectSameBits(dst, src);
}

TEST(Elementwise, Scale) {
  ForEachTarget([] {
    for (int64_t n : kSizes) {
      auto values = RandomFloats(n, 6);
      for (size_t i = 0; i < std::size(kEdges) && i < values.size(); ++i) values[i] = kEdges[i];
      auto expected = values;
      for (float& value : expected) value *= 0.33333334f;
      Scale({values.data(), 0.33333334f, n});
      ExpectSameBits(values, expected);
    }
  });
}

TEST(Elementwise, BitsDoNotDependOnPositionOrLength) {
  const auto a = RandomFloats(700, 7), b = RandomFloats(700, 8);
  const auto narrow = RandomHalves(700, 9);
  std::vector<float> sum(700), mixed = a;
  std::vector<uint16_t> rounded(700);
  Add({DType::kF32, sum.data(), a.data(), b.data(), 700});
  Accumulate({Accumulation::kAdd, mixed.data(), DType::kBf16, narrow.data(), 700});
  Convert({DType::kBf16, rounded.data(), DType::kF32, a.data(), 700});
  for (int64_t first = 0; first < 70; ++first) {
    for (int64_t n : {1, 5, 63, 64, 66, 129, 257}) {
      std::vector<float> piece(n), mixed_piece(a.begin() + first, a.begin() + first + n);
      std::vector<uint16_t> rounded_piece(n);
      Add({DType::kF32, piece.data(), &a[first], &b[first], n});
      Accumulate({Accumulation::kAdd, mixed_piece.data(), DType::kBf16, &narrow[first], n});
      Convert({DType::kBf16, rounded_piece.data(), DType::kF32, &a[first], n});
      EXPECT_EQ(0, std::memcmp(piece.data(), &sum[first], n * 4));
      EXPECT_EQ(0, std::memcmp(mixed_piece.data(), &mixed[first], n * 4));
      EXPECT_EQ(0, std::memcmp(rounded_piece.data(), &rounded[first], n * 2));
    }
  }
}

TEST(Elementwise, WritesNothingBeyondTheEnd) {
  const auto a = RandomFloats(257, 1);
  for (int64_t n : {0, 1, 7, 63, 64, 65, 255, 256}) {
    std::vector<float> dst(257, 42.0f);
    Add({DType::kF32, dst.data(), a.data(), a.data(), n});
    for (int64_t i = n; i < 257; ++i) ASSERT_EQ(dst[i], 42.0f);
    std::vector<uint16_t> halves(257, 42);
    Convert({DType::kBf16, halves.data(), DType::kF32, a.data(), n});
    for (int64_t i = n; i < 257; ++i) ASSERT_EQ(halves[i], 42);
  }
}

}  // namespace
}  // namespace strata
