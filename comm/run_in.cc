#include "comm/run_in.h"

#include <utility>

#include "comm/awaited.h"

namespace strata {

void RunIn(Loop& loop, Task task) {
  if (loop.InLoop()) return std::move(task)();
  Awaited<bool> ended;
  loop.Post([&ended, task = std::move(task)]() mutable {
    std::move(task)();
    { const Task gone = std::move(task); }  // what the task holds goes before the caller does
    ended.Set(true);
  });
  ended.Wait();
}

}  // namespace strata
