#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_handles.h"
#include "kernels/device.h"

namespace strata {

// One CUDA device of this machine. Its memory is aligned to 256 bytes and read by its kernels
// alone; giving memory back waits for everything that runs on the device. Any thread.
class CudaDevice final : public Device {
 public:
  // The device that CUDA gives this number, from 0. FailedPrecondition when it is not there or no
  // driver is. May take seconds the first time in a process.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int number);

  // As CudaStream's constructor.
  std::unique_ptr<Stream> MakeStream(PostFunction post) override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) override;

 private:
  CudaDevice(int number, CudaStreamHandle zeroing);

  const int number_;
  const CudaStreamHandle zeroing_;  // fills new memory, beside what other streams do
};

}  // namespace strata
