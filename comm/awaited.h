#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace strata {

// A value that one thread sets once and another waits for.
template <typename T>
class Awaited {
 public:
  // The first value counts.
  void Set(T value) {
    const std::lock_guard lock(mutex_);
    if (!value_) value_.emplace(std::move(value));
    changed_.notify_all();
  }

  // Blocks. Takes the value.
  T Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return value_.has_value(); });
    return *std::move(value_);
  }

  // Blocks for at most `limit`; nothing when it has passed.
  std::optional<T> WaitFor(absl::Duration limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoNanoseconds(limit),
                      [this] { return value_.has_value(); });
    return std::exchange(value_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<T> value_;
};

}  // namespace strata
