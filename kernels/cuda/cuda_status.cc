#include "kernels/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace strata {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view what, int device) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  return absl::Status(CodeOf(error),
                      absl::StrCat("CUDA device ", device, ": ", what, ": ",
                                   cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

}  // namespace strata
