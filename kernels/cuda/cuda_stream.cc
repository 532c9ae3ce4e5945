#include "kernels/cuda/cuda_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/norm.h"
#include "kernels/optimizer_factors.h"
#include "kernels/status.h"

namespace strata {
namespace {

// In the order of KernelCall.
constexpr const char* kLaunches[] = {"launch Copy",       "launch Add",   "launch Convert",
                                     "launch Accumulate", "launch Scale", "launch SumSquares",
                                     "launch AdamW",      "launch Sgd"};
static_assert(std::size(kLaunches) == std::variant_size_v<KernelCall>);

uint16_t* Bf16(void* data) { return static_cast<uint16_t*>(data); }
const uint16_t* Bf16(const void* data) { return static_cast<const uint16_t*>(data); }
float* F32(void* data) { return static_cast<float*>(data); }
const float* F32(const void* data) { return static_cast<const float*>(data); }

}  // namespace

struct CudaStream::Kernels {
  CudaStream& owner;
  const cudaStream_t stream;

  cudaError_t operator()(const CopyCall& call) const {
    if (call.bytes == 0 || call.dst == call.src) return cudaSuccess;
    return cudaMemcpyAsync(call.dst, call.src, call.bytes, cudaMemcpyDefault, stream);
  }
  cudaError_t operator()(const AddCall& call) const {
    if (call.dtype == DType::kF32) {
      return LaunchAddF32(F32(call.dst), F32(call.a), F32(call.b), call.elements, stream);
    }
    return LaunchAddBf16(Bf16(call.dst), Bf16(call.a), Bf16(call.b), call.elements, stream);
  }
  cudaError_t operator()(const ConvertCall& call) const {
    if (call.dst_dtype == call.src_dtype) {
      return (*this)(CopyCall{call.dst, call.src, call.elements * SizeOf(call.src_dtype)});
    }
    if (call.dst_dtype == DType::kF32) {
      return LaunchWiden(F32(call.dst), Bf16(call.src), call.elements, stream);
    }
    return LaunchNarrow(Bf16(call.dst), F32(call.src), call.elements, stream);
  }
  cudaError_t operator()(const AccumulateCall& call) const {
    if (call.mode == Accumulation::kSet) {
      return (*this)(ConvertCall{DType::kF32, call.dst, call.src_dtype, call.src, call.elements});
    }
    if (call.src_dtype == DType::kF32) {
      return LaunchAddF32(call.dst, call.dst, F32(call.src), call.elements, stream);
    }
    return LaunchAddWidened(call.dst, call.dst, Bf16(call.src), call.elements, stream);
  }
  cudaError_t operator()(const ScaleCall& call) const {
    return LaunchScale(call.dst, call.factor, call.elements, stream);
  }
  cudaError_t operator()(const SumSquaresCall& call) const { return owner.SumSquares(call); }
  cudaError_t operator()(const AdamWCall& call) const {
    return LaunchAdamW(call.parameters, call.first_moment, call.second_moment, call.gradient,
                       call.elements, FactorsOf(call), stream);
  }
  cudaError_t operator()(const SgdCall& call) const {
    return LaunchSgd(call.parameters, call.momentum, call.gradient, call.elements, FactorsOf(call),
                     stream);
  }
};

CudaStream::CudaStream(int device, PostFunction post)
    : device_(device), post_(std::move(post)), thread_(device) {
  launched_ = Make();
}

absl::Status CudaStream::Make() {
  constexpr absl::string_view kWhat = "make a stream";
  STRATA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), kWhat, device_));
  void* slots = nullptr;
  STRATA_RETURN_IF_ERROR(
      CudaStatus(cudaHostAlloc(&slots, kSlots * kSlotBlocks * sizeof(double), cudaHostAllocMapped),
                 kWhat, device_));
  slots_.reset(static_cast<double*>(slots));
  cudaStream_t stream = nullptr;
  STRATA_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), kWhat, device_));
  stream_.reset(stream);
  return absl::OkStatus();
}

void CudaStream::Launch(const KernelCall& call) {
  if (!launched_.ok()) return;
  cudaError_t error = cudaSetDevice(device_);
  if (error == cudaSuccess) error = std::visit(Kernels{*this, stream_.get()}, call);
  launched_ = CudaStatus(error, kLaunches[call.index()], device_);
}

cudaError_t CudaStream::SumSquares(const SumSquaresCall& call) {
  static_assert(kSquaresPerSum == kBlockElements);
  constexpr int64_t kMost = kSlotBlocks * kBlockElements;
  for (int64_t first = 0; first < call.elements; first += kMost) {
    const int64_t elements = std::min(kMost, call.elements - first);
    const int64_t blocks = (elements + kBlockElements - 1) / kBlockElements;
    free_slots_.acquire();
    double* sums = slots_.get() + next_slot_ * kSlotBlocks;
    next_slot_ = (next_slot_ + 1) % kSlots;
    const cudaError_t error = LaunchBlockSquares(sums, call.src + first, elements, stream_.get());
    thread_.After(stream_.get(), CudaStatus(error, "launch SumSquares", device_),
                  [this, sum = call.sum, sums, blocks](const absl::Status& status) {
                    if (status.ok()) sum->AddBlockSums({sums, static_cast<size_t>(blocks)});
                    free_slots_.release();
                  });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

void CudaStream::Notify(Done done) {
  thread_.After(stream_.get(), launched_,
                [this, done = std::move(done)](absl::Status status) mutable {
                  post_([done = std::move(done), status = std::move(status)]() mutable {
                    std::move(done)(std::move(status));
                  });
                });
}

}  // namespace strata
