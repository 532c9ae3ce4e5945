#include "runtime/clip.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(MakeClip, LeavesNormsWithinTheLimitAlone) {
  for (double norm : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(MakeClip(norm, 1).factor, 1);
    EXPECT_EQ(MakeClip(norm, 1).norm_after, norm);
    EXPECT_EQ(MakeClip(1e30 * norm, 0).factor, 1);  // no limit
  }
}

TEST(MakeClip, NeverExceedsTheLimitAndStaysCloseToIt) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    const float limit = std::ldexp(1.0f + static_cast<float>(random() % 4096) / 4096,
                                   static_cast<int>(random() % 40) - 30);
    const double norm = static_cast<double>(limit) *
                        (1 + std::ldexp(static_cast<double>(random() % 1'000'003), -9));
    const Clip clip = MakeClip(norm, limit);
    ASSERT_LE(clip.norm_after, static_cast<double>(limit));
    ASSERT_EQ(clip.norm_after, static_cast<double>(clip.factor) * norm);
    const double next = std::nextafterf(clip.factor, 2.0f);
    ASSERT_GT(next * norm, static_cast<double>(limit)) << norm << " " << limit;
  }
}

TEST(MakeClip, TinyLimitsAndHugeNormsWork) {
  EXPECT_EQ(MakeClip(1e38, 1e-6f).norm_after,
            1e38 * static_cast<double>(MakeClip(1e38, 1e-6f).factor));
  EXPECT_LE(MakeClip(1e38, 1e-6f).norm_after, static_cast<double>(1e-6f));
}

}  // namespace
}  // namespace strata
