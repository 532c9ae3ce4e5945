#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "kernels/cuda/cuda_handles.h"

namespace strata {

// A thread that waits for what one CUDA stream holds, and calls when the stream has got there.
class EventThread {
 public:
  using Then = absl::AnyInvocable<void(absl::Status) &&>;

  explicit EventThread(int device);
  // Waits until every `then` has run.
  ~EventThread();

  // Runs `then` on this thread when `stream` has ended all that it holds now, and in the order of
  // these calls. It is told the first error so far: of `launched`, which says how launching went,
  // or of the stream. A stream that is null, since it could not be made, holds nothing. Does not
  // block.
  void After(cudaStream_t stream, const absl::Status& launched, Then then);

 private:
  struct Entry {
    CudaEventHandle event;  // null: nothing to wait for
    absl::Status launched;
    Then then;
  };

  absl::Status Record(cudaStream_t stream, CudaEventHandle& event);
  void Run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;           // guarded by mutex_
  std::vector<CudaEventHandle> spare_;  // guarded by mutex_: events to use again
  bool ending_ = false;                 // guarded by mutex_
  std::thread thread_;
};

}  // namespace strata
