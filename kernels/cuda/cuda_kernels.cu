#include <type_traits>

#include "kernels/cuda/cuda_kernels.h"

namespace strata {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostThreadBlocks = 4096;  // beyond what any device runs at once

// Threads of a warp are the lanes of a block in [Note: Order-free sum of squares]: 32 each.
constexpr int kLanes = 32;

// [Note: NaN bits on CUDA] The device's operations make one NaN of all; the host's keep the first
// NaN they are given, made quiet, and make this one where they are given none (x86). Where a result
// is NaN, the functions below give what the host gives, so that no comparison needs an exception.
constexpr uint32_t kMadeNan = 0xffc00000, kQuietBit = 0x400000;

__device__ float Settle(float result, float a, float b) {
  if (result == result) return result;
  if (a != a) return __uint_as_float(__float_as_uint(a) | kQuietBit);
  if (b != b) return __uint_as_float(__float_as_uint(b) | kQuietBit);
  return __uint_as_float(kMadeNan);
}

__device__ float Add(float a, float b) { return Settle(__fadd_rn(a, b), a, b); }
__device__ float Mul(float a, float b) { return Settle(__fmul_rn(a, b), a, b); }
__device__ float Div(float a, float b) { return Settle(__fdiv_rn(a, b), a, b); }
__device__ float Sqrt(float a) { return Settle(__fsqrt_rn(a), a, a); }

__device__ float Widened(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

// As F32ToBf16 in kernels/bf16.h.
__device__ uint16_t Narrowed(float value) {
  const uint32_t bits = __float_as_uint(value);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ int64_t FirstThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ int64_t AllThreads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__global__ void AddF32(float* dst, const float* a, const float* b, int64_t elements) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) dst[i] = Add(a[i], b[i]);
}

__global__ void AddBf16(uint16_t* dst, const uint16_t* a, const uint16_t* b, int64_t elements) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) {
    dst[i] = Narrowed(Add(Widened(a[i]), Widened(b[i])));
  }
}

__global__ void AddWidened(float* dst, const float* a, const uint16_t* b, int64_t elements) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) {
    dst[i] = Add(a[i], Widened(b[i]));
  }
}

__global__ void Widen(float* dst, const uint16_t* src, int64_t elements) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) dst[i] = Widened(src[i]);
}

__global__ void Narrow(uint16_t* dst, const float* src, int64_t elements) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) dst[i] = Narrowed(src[i]);
}

__global__ void Scale(float* dst, float factor, int64_t elements) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) dst[i] = Mul(dst[i], factor);
}

// A warp per block. Which NaN a sum is has no meaning: NormSum keeps that it was one.
__global__ void BlockSquares(double* sums, const float* src, int64_t elements) {
  const int lane = threadIdx.x % kLanes;
  const int64_t warps = AllThreads() / kLanes;
  for (int64_t block = FirstThread() / kLanes; block * kSquaresPerSum < elements; block += warps) {
    double sum = 0;
    for (int row = 0; row < kSquaresPerSum / kLanes; ++row) {
      const int64_t i = block * kSquaresPerSum + row * kLanes + lane;
      const double x = i < elements ? src[i] : 0;
      sum = __dadd_rn(sum, __dmul_rn(x, x));
    }
    for (int half = kLanes / 2; half > 0; half /= 2) {
      sum = __dadd_rn(sum, __shfl_down_sync(0xffffffff, sum, half));
    }
    if (lane == 0) sums[block] = sum;
  }
}

__global__ void AdamW(float* parameters, float* first_moment, float* second_moment,
                      const float* gradient, int64_t elements, AdamWFactors factors) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) {
    const float g = Mul(gradient[i], factors.clip);
    const float p = Mul(parameters[i], factors.decay);
    const float m = Add(Mul(first_moment[i], factors.beta1), Mul(g, factors.one_minus_beta1));
    const float v =
        Add(Mul(second_moment[i], factors.beta2), Mul(Mul(factors.one_minus_beta2, g), g));
    const float denominator = Add(Div(Sqrt(v), factors.sqrt_correction), factors.epsilon);
    first_moment[i] = m;
    second_moment[i] = v;
    parameters[i] = Add(p, Div(Mul(factors.minus_step_size, m), denominator));
  }
}

__global__ void Sgd(float* parameters, float* momentum, const float* gradient, int64_t elements,
                    SgdFactors factors) {
  for (int64_t i = FirstThread(); i < elements; i += AllThreads()) {
    const float p = parameters[i];
    float m = Mul(gradient[i], factors.clip);
    if (factors.weight_decay != 0) m = Add(m, Mul(p, factors.weight_decay));
    if (momentum != nullptr) {
      m = Add(Mul(momentum[i], factors.momentum_factor), m);
      momentum[i] = m;
    }
    parameters[i] = Add(p, Mul(m, factors.minus_learning_rate));
  }
}

// `kernel` with at least `threads` threads where the device can run as many, whole thread blocks.
template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), int64_t threads, cudaStream_t stream,
                   std::common_type_t<Parameters>... arguments) {
  if (threads == 0) return cudaSuccess;
  const int64_t thread_blocks = (threads + kThreads - 1) / kThreads;
  cudaLaunchConfig_t config = {};
  config.gridDim.x =
      static_cast<unsigned>(thread_blocks < kMostThreadBlocks ? thread_blocks : kMostThreadBlocks);
  config.blockDim.x = kThreads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace

cudaError_t LaunchAddF32(float* dst, const float* a, const float* b, int64_t elements,
                         cudaStream_t stream) {
  return Launch(AddF32, elements, stream, dst, a, b, elements);
}

cudaError_t LaunchAddBf16(uint16_t* dst, const uint16_t* a, const uint16_t* b, int64_t elements,
                          cudaStream_t stream) {
  return Launch(AddBf16, elements, stream, dst, a, b, elements);
}

cudaError_t LaunchAddWidened(float* dst, const float* a, const uint16_t* b, int64_t elements,
                             cudaStream_t stream) {
  return Launch(AddWidened, elements, stream, dst, a, b, elements);
}

cudaError_t LaunchWiden(float* dst, const uint16_t* src, int64_t elements, cudaStream_t stream) {
  return Launch(Widen, elements, stream, dst, src, elements);
}

cudaError_t LaunchNarrow(uint16_t* dst, const float* src, int64_t elements, cudaStream_t stream) {
  return Launch(Narrow, elements, stream, dst, src, elements);
}

cudaError_t LaunchScale(float* dst, float factor, int64_t elements, cudaStream_t stream) {
  return Launch(Scale, elements, stream, dst, factor, elements);
}

cudaError_t LaunchBlockSquares(double* sums, const float* src, int64_t elements,
                               cudaStream_t stream) {
  const int64_t blocks = (elements + kSquaresPerSum - 1) / kSquaresPerSum;
  return Launch(BlockSquares, blocks * kLanes, stream, sums, src, elements);
}

cudaError_t LaunchAdamW(float* parameters, float* first_moment, float* second_moment,
                        const float* gradient, int64_t elements, const AdamWFactors& factors,
                        cudaStream_t stream) {
  return Launch(AdamW, elements, stream, parameters, first_moment, second_moment, gradient,
                elements, factors);
}

cudaError_t LaunchSgd(float* parameters, float* momentum, const float* gradient, int64_t elements,
                      const SgdFactors& factors, cudaStream_t stream) {
  return Launch(Sgd, elements, stream, parameters, momentum, gradient, elements, factors);
}

}  // namespace strata
