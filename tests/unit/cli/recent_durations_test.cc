#include "cli/train/recent_durations.h"

#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(RecentDurationsTest, NoneHaveTheMedianZero) {
  EXPECT_EQ(RecentDurations().Median(), absl::ZeroDuration());
}

TEST(RecentDurationsTest, TheMedianIsTheMiddleInWhateverOrder) {
  RecentDurations durations;
  for (const int seconds : {5, 1, 4}) durations.Add(absl::Seconds(seconds));
  EXPECT_EQ(durations.Median(), absl::Seconds(4));
  durations.Add(absl::Seconds(9));
  EXPECT_EQ(durations.Median(), absl::Seconds(5));
  EXPECT_EQ(durations.count(), 4);
}

TEST(RecentDurationsTest, OldOnesMakeWay) {
  constexpr int kKept = RecentDurations::kKept;
  RecentDurations durations;
  for (int i = 0; i < kKept; ++i) durations.Add(absl::Seconds(1));
  for (int i = 0; i < kKept / 2; ++i) durations.Add(absl::Seconds(2));
  EXPECT_EQ(durations.Median(), absl::Seconds(2));
  for (int i = 0; i < kKept; ++i) durations.Add(absl::Seconds(3));
  EXPECT_EQ(durations.Median(), absl::Seconds(3));
  EXPECT_EQ(durations.count(), 5 * kKept / 2);
}

}  // namespace
}  // namespace strata
