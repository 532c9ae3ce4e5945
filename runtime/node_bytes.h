#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "runtime/engine_core.h"
#include "runtime/exchange.h"
#include "runtime/shard_memory.h"

namespace strata {

// What all ranks of this rank's node moved in a step, for its report. Control loop.
class NodeBytes {
 public:
  explicit NodeBytes(EngineCore& core);

  absl::Status Allocate(ShardMemory& memory);

  // Tells the others what this rank moved in `step`, of which everything has ended, and puts the
  // sums into the step's report. All ranks do this for the same step; one at a time.
  void Start(uint32_t operation, int64_t step, absl::AnyInvocable<void() &&> ended);
  const CountedPlan& plan() const { return exchange_.plan(); }

 private:
  void Sum(int64_t step);

  EngineCore& core_;
  Exchange exchange_;
};

}  // namespace strata
