#include "kernels/cuda/event_thread.h"

#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/status.h"

namespace strata {

EventThread::EventThread(int device) : device_(device), thread_([this] { Run(); }) {}

EventThread::~EventThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void EventThread::After(cudaStream_t stream, const absl::Status& launched, Then then) {
  Entry entry{.event = nullptr, .launched = launched, .then = std::move(then)};
  // After a failed launch too: what was launched before still uses the memory it was lent.
  if (stream != nullptr) entry.launched.Update(Record(stream, entry.event));
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  changed_.notify_one();
}

absl::Status EventThread::Record(cudaStream_t stream, CudaEventHandle& event) {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      event = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (event == nullptr) {
    cudaEvent_t made = nullptr;
    STRATA_RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&made, cudaEventDisableTiming | cudaEventBlockingSync),
                   "make an event", device_));
    event.reset(made);
  }
  return CudaStatus(cudaEventRecord(event.get(), stream), "record an event", device_);
}

void EventThread::Run() {
  absl::Status first_error;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !entries_.empty(); });
    if (entries_.empty()) return;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    lock.unlock();
    first_error.Update(entry.launched);
    if (entry.event != nullptr) {
      first_error.Update(
          CudaStatus(cudaEventSynchronize(entry.event.get()), "run what was launched", device_));
    }
    std::move(entry.then)(first_error);
    lock.lock();
    if (entry.event != nullptr) spare_.push_back(std::move(entry.event));
  }
}

}  // namespace strata
