#include "comm/run_in.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace strata {

void RunIn(Loop& loop, Task task) {
  if (loop.InLoop()) return std::move(task)();
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  loop.Post([&, task = std::move(task)]() mutable {
    std::move(task)();
    // What the task holds goes before the caller does.
    { const Task gone = std::move(task); }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&ended] { return ended; });
}

}  // namespace strata
