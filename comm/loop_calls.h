#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "comm/awaited.h"
#include "comm/loop.h"
#include "kernels/types.h"

namespace strata {

// Calls `done` on the loop, never inside the call that it answers.
inline void PostDone(Loop& loop, Done done, absl::Status status) {
  loop.Post([done = std::move(done), status = std::move(status)]() mutable {
    std::move(done)(std::move(status));
  });
}

// To be called `count` (> 0) times on one loop; the last call calls `done` with OK.
inline std::function<void()> AfterCalls(size_t count, Done done) {
  auto last = std::make_shared<Done>(std::move(done));
  return [left = std::make_shared<size_t>(count), last] {
    if (--*left == 0) std::move (*last)(absl::OkStatus());
  };
}

// Runs `task` in the loop and returns after its end. On any thread, the loop's included; the loop
// must be running.
inline void RunInLoop(Loop& loop, Task task) {
  if (loop.InLoop()) return std::move(task)();
  Awaited<bool> ended;
  loop.Post([&] {
    std::move(task)();
    ended.Set(true);
  });
  ended.Wait();
}

}  // namespace strata
