#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace strata {

// Opens once; threads wait for it. Like absl::Notification, but of the standard library, which
// ThreadSanitizer understands: the system's abseil is not built for it.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

  // False if it is still shut after `limit`.
  bool WaitFor(absl::Duration limit) {
    std::unique_lock lock(mutex_);
    return opened_.wait_for(lock, absl::ToChronoNanoseconds(limit), [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace strata
