#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/optimizer_factors.h"

namespace strata {

// The kernels of kernels/elementwise.h, kernels/optimizer.h and kernels/block_squares.h on CUDA,
// with the host's bits; bf16 as its bits. Each is put into `stream` and returns whether that
// worked; the stream's device is the thread's current one. Without abseil, which the CUDA compiler
// is slow at.

cudaError_t LaunchAddF32(float* dst, const float* a, const float* b, int64_t elements,
                         cudaStream_t stream);
cudaError_t LaunchAddBf16(uint16_t* dst, const uint16_t* a, const uint16_t* b, int64_t elements,
                          cudaStream_t stream);

// dst = a + b, where b is bf16.
cudaError_t LaunchAddWidened(float* dst, const float* a, const uint16_t* b, int64_t elements,
                             cudaStream_t stream);

// From bf16 to f32, and back.
cudaError_t LaunchWiden(float* dst, const uint16_t* src, int64_t elements, cudaStream_t stream);
cudaError_t LaunchNarrow(uint16_t* dst, const float* src, int64_t elements, cudaStream_t stream);

cudaError_t LaunchScale(float* dst, float factor, int64_t elements, cudaStream_t stream);

// One sum per block of this many elements, the last filled up with zeros.
inline constexpr int64_t kSquaresPerSum = 256;
cudaError_t LaunchBlockSquares(double* sums, const float* src, int64_t elements,
                               cudaStream_t stream);

cudaError_t LaunchAdamW(float* parameters, float* first_moment, float* second_moment,
                        const float* gradient, int64_t elements, const AdamWFactors& factors,
                        cudaStream_t stream);

// `momentum` may be null.
cudaError_t LaunchSgd(float* parameters, float* momentum, const float* gradient, int64_t elements,
                      const SgdFactors& factors, cudaStream_t stream);

}  // namespace strata
