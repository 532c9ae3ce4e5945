#pragma once

#include "comm/loop.h"
#include "comm/plan_runner.h"
#include "kernels/stream.h"

namespace strata {

// One thread's worth of communication: a loop and what lives on it. Borrowed views; the owner is a
// World (real sockets) or a SimCluster (virtual time).
struct Lane {
  Loop* loop = nullptr;
  Stream* stream = nullptr;      // of `loop`
  PlanRunner* runner = nullptr;  // of `loop`
};

}  // namespace strata
