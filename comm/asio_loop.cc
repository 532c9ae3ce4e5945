#include "comm/asio_loop.h"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/status.h"

namespace strata {
namespace {

// The steady clock, shown as absl::Time: differences are right whatever the wall clock does.
absl::Time SteadyNow() {
  return absl::FromUnixNanos(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count());
}

}  // namespace

AsioLoop::AsioLoop(const std::string& name) : work_(boost::asio::make_work_guard(context_)) {
  thread_ = std::thread([this, name] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    context_.run();
  });
}

AsioLoop::~AsioLoop() {
  STRATA_CHECK(!InLoop());
  boost::asio::post(context_, [this] {
    timers_.clear();
    work_.reset();
  });
  thread_.join();
}

absl::Time AsioLoop::Now() const { return SteadyNow(); }

void AsioLoop::Post(Task task) {
  boost::asio::post(context_, [task = std::move(task)]() mutable { std::move(task)(); });
}

TimerId AsioLoop::PostAt(absl::Time when, Task task) {
  STRATA_CHECK(InLoop());
  const uint64_t id = next_timer_++;
  auto timer = std::make_unique<boost::asio::steady_timer>(context_);
  timer->expires_after(absl::ToChronoNanoseconds(when - SteadyNow()));
  timer->async_wait([this, id, task = std::move(task)](boost::system::error_code error) mutable {
    // A timer that is cancelled after it has expired still comes here, without an error.
    if (error || timers_.erase(id) == 0) return;
    std::move(task)();
  });
  timers_.emplace(id, std::move(timer));
  return TimerId{id};
}

void AsioLoop::Cancel(TimerId timer) {
  STRATA_CHECK(InLoop());
  timers_.erase(static_cast<uint64_t>(timer));
}

}  // namespace strata
