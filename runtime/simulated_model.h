#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "runtime/reference_model.h"

namespace strata {

struct SimulatedOptions {
  std::vector<int64_t> elements;     // per unit
  absl::Duration forward, backward;  // of one micro-step, spread over the units by their elements
  DType compute = DType::kF32;
};

// Units of given sizes whose compute takes time but no processor: it sleeps. The traffic of a
// training step is the real one, and so is its arithmetic: each parameter is pulled towards the
// mean byte of the batch, so the loss falls and every byte that goes wrong shows.
std::unique_ptr<ReferenceModel> MakeSimulatedModel(const SimulatedOptions& options);

}  // namespace strata
