#include "cli/train/schedule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(ScheduleTest, RisesInEqualStepsFromTheFirst) {
  const LearningRateSchedule schedule{.peak = 0.5f, .warmup = 4, .steps = 10, .cosine = false};
  EXPECT_EQ(LearningRate(schedule, 1), 0.125f);
  EXPECT_EQ(LearningRate(schedule, 2), 0.25f);
  EXPECT_EQ(LearningRate(schedule, 3), 0.375f);
  EXPECT_EQ(LearningRate(schedule, 4), 0.5f);
}

TEST(ScheduleTest, StaysConstantAfterTheWarmup) {
  const LearningRateSchedule schedule{.peak = 0.5f, .warmup = 2, .steps = 7, .cosine = false};
  for (int step = 2; step <= 8; ++step) EXPECT_EQ(LearningRate(schedule, step), 0.5f) << step;
}

TEST(ScheduleTest, WithoutWarmupTheFirstStepHasAlmostThePeak) {
  EXPECT_EQ(LearningRate({.peak = 0.5f, .warmup = 0, .steps = 3, .cosine = false}, 1), 0.5f);
  const float first = LearningRate({.peak = 0.5f, .warmup = 0, .steps = 1000, .cosine = true}, 1);
  EXPECT_LT(first, 0.5f);
  EXPECT_GT(first, 0.4999f);
}

TEST(ScheduleTest, TheCosineEndsAtATenthOfThePeakAndStaysThere) {
  for (const int64_t steps : {4, 5, 101, 100003}) {
    const LearningRateSchedule schedule{.peak = 1.0f, .warmup = 3, .steps = steps, .cosine = true};
    EXPECT_EQ(LearningRate(schedule, 3), 1.0f) << steps;
    EXPECT_EQ(LearningRate(schedule, steps), 0.1f) << steps;
    EXPECT_EQ(LearningRate(schedule, steps + 1), 0.1f) << steps;
  }
}

TEST(ScheduleTest, TheCosineIsTheLibrarysCosine) {
  constexpr int kSteps = 1001;
  const LearningRateSchedule schedule{.peak = 1.0f, .warmup = 0, .steps = kSteps, .cosine = true};
  float before = 1.0f;
  for (int step = 1; step <= kSteps; ++step) {
    const float rate = LearningRate(schedule, step);
    EXPECT_FLOAT_EQ(rate, static_cast<float>(0.1 + 0.45 * (1 + std::cos(M_PI * step / kSteps))));
    EXPECT_LE(rate, before) << step;
    before = rate;
  }
}

TEST(ScheduleTest, ARunThatIsAllWarmupHasNoDivisionByZero) {
  const LearningRateSchedule schedule{.peak = 0.5f, .warmup = 3, .steps = 3, .cosine = true};
  EXPECT_EQ(LearningRate(schedule, 3), 0.5f);
  EXPECT_FLOAT_EQ(LearningRate(schedule, 4), 0.05f);
}

}  // namespace
}  // namespace strata
