#include "cli/train/schedule.h"

#include <algorithm>

namespace strata {
namespace {

constexpr double kFinalShare = 0.1;

// cos(pi x) for x in [0, 1]: the sine's series around the middle, so that no libm decides a bit.
double CosPi(double x) {
  const double y = 3.14159265358979323846 * (0.5 - x);
  double term = y, sum = y;
  for (int n = 1; n < 12; ++n) {
    term *= -y * y / ((2 * n) * (2 * n + 1));
    sum += term;
  }
  return sum;
}

}  // namespace

float LearningRate(const LearningRateSchedule& schedule, int64_t step) {
  if (step <= schedule.warmup) {
    return static_cast<float>(schedule.peak * static_cast<double>(step) /
                              static_cast<double>(schedule.warmup));
  }
  if (!schedule.cosine) return schedule.peak;
  const double length = static_cast<double>(std::max<int64_t>(1, schedule.steps - schedule.warmup));
  const double progress = std::min(1.0, static_cast<double>(step - schedule.warmup) / length);
  const double share = kFinalShare + (1 - kFinalShare) * 0.5 * (1 + CosPi(progress));
  return static_cast<float>(schedule.peak * share);
}

}  // namespace strata
