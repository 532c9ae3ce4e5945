#pragma once

#include <cstdint>
#include <semaphore>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_handles.h"
#include "kernels/cuda/event_thread.h"
#include "kernels/stream.h"

namespace strata {

// A Stream on a CUDA device: Launch puts the kernel into a CUDA stream of its own and returns, with
// one exception below. One thread at a time, on which the device becomes CUDA's current one.
//
// The first error, of a launch or of the device, is what every Notify behind it reports; nothing is
// launched after a failed launch. A stream that could not be made reports so in the same way.
//
// Copies may be between the device's memory and the host's.
//
// [Note: Block sums on CUDA] Sums of squares are made per block on the device, which writes them
// into pinned host memory; when the CUDA stream has got there, this stream's own thread adds them
// to the NormSum, which so has the host's bits. The pinned memory has a fixed number of slots, each
// for the sums of 1 Mi elements or fewer of one call. Launch waits for the oldest while all are in
// use.
class CudaStream final : public Stream {
 public:
  // `post` is called on a thread of this stream's own, as long as the stream lives.
  CudaStream(int device, PostFunction post);

  void Launch(const KernelCall& call) override;
  void Notify(Done done) override;

 private:
  struct Kernels;

  static constexpr int64_t kSlots = 8;
  static constexpr int64_t kSlotBlocks = 4096;

  absl::Status Make();
  cudaError_t SumSquares(const SumSquaresCall& call);

  const int device_;
  const PostFunction post_;
  absl::Status launched_;  // the first error of a launch
  CudaStreamHandle stream_;
  PinnedArray<double> slots_;  // kSlots times kSlotBlocks, used in turn
  int64_t next_slot_ = 0;
  std::counting_semaphore<kSlots> free_slots_{kSlots};
  EventThread thread_;  // the last: it uses the others until it ends
};

}  // namespace strata
