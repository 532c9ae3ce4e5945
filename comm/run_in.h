#pragma once

#include "comm/loop.h"
#include "kernels/types.h"

namespace strata {

// Runs `task` in `loop` and returns when it has ended; at once where the caller is in the loop. The
// loop must be running.
void RunIn(Loop& loop, Task task);

}  // namespace strata
