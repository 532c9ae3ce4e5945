#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

namespace strata {

// Owners of what CUDA hands out. What goes wrong at the end of a life has nobody to be told.

struct DestroyCudaStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using CudaStreamHandle = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyCudaStream>;

struct DestroyCudaEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using CudaEventHandle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyCudaEvent>;

// Host memory that kernels can write.
template <typename T>
struct FreePinned {
  void operator()(T* memory) const { cudaFreeHost(memory); }
};
template <typename T>
using PinnedArray = std::unique_ptr<T[], FreePinned<T>>;

}  // namespace strata
