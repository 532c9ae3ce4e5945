#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/batch.h"
#include "runtime/runtime.h"

namespace strata {

struct MicroStepResult {
  double loss = 0;                   // mean over the batch
  absl::Duration forward, backward;  // computing; time blocked in the runtime is not in it
};

// A model that `strata train` trains through the public API. One thread.
class ReferenceModel {
 public:
  virtual ~ReferenceModel() = default;

  // Adds the model's units, one at a time. `runtime` is borrowed, not sealed, and outlives this.
  virtual absl::Status Declare(Runtime& runtime) = 0;

  // Forward, backward and hand-over of the gradients of one micro-step.
  virtual absl::StatusOr<MicroStepResult> MicroStep(const Batch& batch) = 0;

  // Mean loss of a batch, without gradients.
  virtual absl::StatusOr<double> Evaluate(const Batch& batch) = 0;
};

}  // namespace strata
