#include "kernels/cuda/cuda_device.h"

#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/status.h"

namespace strata {
namespace {

class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~CudaMemory() override { cudaFree(bytes_.data()); }
  std::span<std::byte> bytes() const override { return bytes_; }

 private:
  const std::span<std::byte> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int number) {
  STRATA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(number), "open", number));
  cudaStream_t zeroing = nullptr;
  STRATA_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&zeroing, cudaStreamNonBlocking),
                                    "make a stream", number));
  return std::unique_ptr<CudaDevice>(new CudaDevice(number, CudaStreamHandle(zeroing)));
}

CudaDevice::CudaDevice(int number, CudaStreamHandle zeroing)
    : number_(number), zeroing_(std::move(zeroing)) {}

std::unique_ptr<Stream> CudaDevice::MakeStream(PostFunction post) {
  return std::make_unique<CudaStream>(number_, std::move(post));
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> CudaDevice::Allocate(int64_t bytes) {
  const std::string what = absl::StrCat("allocate ", bytes, " bytes");
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA device ", number_, ": ", what, ": ask for at least one"));
  }
  STRATA_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(number_), what, number_));
  void* data = nullptr;
  STRATA_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&data, bytes), what, number_));
  auto memory = std::make_unique<CudaMemory>(
      std::span(static_cast<std::byte*>(data), static_cast<size_t>(bytes)));
  STRATA_RETURN_IF_ERROR(
      CudaStatus(cudaMemsetAsync(data, 0, bytes, zeroing_.get()), "zero memory", number_));
  STRATA_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(zeroing_.get()), "zero memory", number_));
  return memory;
}

}  // namespace strata
