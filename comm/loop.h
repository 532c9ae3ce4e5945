#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "kernels/types.h"

namespace strata {

enum class TimerId : uint64_t {};

// Runs tasks one after the other: the only source of time and order for what lives on it. AsioLoop
// is a thread; SimLoop is a share of one virtual clock. State is confined to one loop and asserts
// it.
class Loop {
 public:
  virtual ~Loop() = default;

  // Monotonic on one loop. Virtual time in simulation. Any thread.
  virtual absl::Time Now() const = 0;

  // Runs `task` on the loop, after the tasks posted before it from the same thread. Any thread.
  virtual void Post(Task task) = 0;

  // Runs `task` at `when` or soon after, unless cancelled first. In the loop only.
  virtual TimerId PostAt(absl::Time when, Task task) = 0;

  // No effect if the task has run. In the loop only.
  virtual void Cancel(TimerId timer) = 0;

  virtual bool InLoop() const = 0;
};

}  // namespace strata
