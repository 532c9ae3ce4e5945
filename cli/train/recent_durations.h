#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace strata {

// The latest durations of one kind, in memory that does not grow: what steps take, however many
// there are. One thread.
class RecentDurations {
 public:
  static constexpr size_t kKept = 1024;

  void Add(absl::Duration duration) { values_[static_cast<size_t>(count_++) % kKept] = duration; }

  int64_t count() const { return count_; }  // of all that were added

  // Of the last kKept, the upper one of the middle two; zero when there is none.
  absl::Duration Median() const {
    const int64_t kept = std::min<int64_t>(count_, kKept);
    if (kept == 0) return absl::ZeroDuration();
    std::vector<absl::Duration> values(values_.begin(), values_.begin() + kept);
    const auto middle = values.begin() + kept / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

 private:
  std::vector<absl::Duration> values_ = std::vector<absl::Duration>(kKept);
  int64_t count_ = 0;
};

}  // namespace strata
