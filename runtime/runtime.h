#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/layout.h"
#include "comm/world.h"
#include "kernels/types.h"
#include "runtime/optimizer_options.h"
#include "runtime/step_report.h"
#include "runtime/unit.h"
#include "scheduler/prefetch_scheduler.h"

namespace strata {

struct RuntimeOptions {
  WorldOptions world;
  std::string layout = "zero3";  // a preset; or the three lists below when it is "custom"
  std::vector<std::string> shard_parameters, shard_gradients, shard_optimizer;
  DType compute_dtype = DType::kF32;
  DType gradient_dtype = DType::kF32;  // in which gradients cross links
  int accumulation = 1;                // micro-steps per step, >= 1
  int64_t prefetch_bytes = 64 << 20;   // budget of unit memory: gathered units and gradient buffers
  int64_t chunk_bytes = 256 << 10;
  OptimizerOptions optimizer;
  float clip = 0;                              // largest global gradient norm; 0: no clipping
  absl::Duration timeout = absl::Seconds(30);  // of every wait
  std::string trace;  // file for a Chrome/Perfetto timeline of this rank; empty: none
};

// The runtime as an application sees it: a blocking shell over an Engine, one thread at a time
// (autograd's thread may take turns with the main one). Every error is final for the Runtime except
// InvalidArgument and FailedPrecondition. See docs/architecture.md for a step as a picture.
class Runtime {
 public:
  // Meets the other ranks. Blocks, at most options.world.timeout.
  static absl::StatusOr<std::unique_ptr<Runtime>> Start(const RuntimeOptions& options);
  ~Runtime();

  Rank self() const;
  const Topology& topology() const;
  const Layout& layout() const;
  int64_t elements() const;  // of all units so far, gaps included

  // Declares the next unit, the same on all ranks, before Seal. `init` is called on this thread
  // with ranges of elements of a parameter and writes their f32 values, only for what this rank
  // keeps.
  absl::StatusOr<UnitId> AddUnit(const UnitSpec& spec, const Initializer& init);

  // Fixes the units: plans, memory. Afterwards nothing allocates. ResourceExhausted says what does
  // not fit, what there is and the key to change.
  absl::Status Seal();

  // Blocks until the unit's parameters (and, in kBackward, a zeroed gradient buffer) are at their
  // fixed addresses. Acquires nest: each needs a Release.
  absl::StatusOr<UnitView> Acquire(UnitId unit, Phase phase);

  // Hands the gradients of one micro-step over; the buffer is the runtime's afterwards. Between
  // Acquire(kBackward) and its Release; a Release without it counts as a gradient of zeros.
  absl::Status Reduce(UnitId unit);

  absl::Status Release(UnitId unit);

  // Ends a step of `accumulation` micro-steps: outer reduce, norm, clip or skip, optimizer. Returns
  // when the shards are updated; publish goes on. The report is of the step before, final (see
  // StepReport); `groups` replace the optimizer's for this step unless empty.
  absl::StatusOr<StepReport> EndStep(const StepInput& input);

  // Waits until nothing is on the wire, on any rank of this rank's node, and returns the last
  // step's final report. All ranks call it at the same point.
  absl::StatusOr<StepReport> Flush();

  // SHA-256, in hex, over all master parameters in declaration order: the same on all ranks. Every
  // parameter's elements only, without padding. Collective; after Flush.
  absl::StatusOr<std::string> ParametersSha256();

  MemoryReport memory() const;  // predicted at Seal, in bytes of this rank

  // Leaves the job. `why` not OK: the others are told and end with it.
  absl::Status Shutdown(absl::Status why = absl::OkStatus());

 private:
  struct State;
  explicit Runtime(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace strata
