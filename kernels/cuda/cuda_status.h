#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace strata {

// OK, or what failed on which device and what CUDA says about it: ResourceExhausted without memory,
// FailedPrecondition without a usable device, else Internal. Clears the thread's last CUDA error,
// which others might take for their own.
absl::Status CudaStatus(cudaError_t error, absl::string_view what, int device);

}  // namespace strata
