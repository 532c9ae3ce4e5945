#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "comm/loop.h"

namespace strata {

// A Loop that is one thread running a Boost.Asio context. The destructor lets posted tasks end,
// drops timers and joins the thread; it must not run in the loop.
class AsioLoop final : public Loop {
 public:
  // `name` (at most 15 bytes) is the thread's, as debuggers show it.
  explicit AsioLoop(const std::string& name);
  ~AsioLoop() override;

  absl::Time Now() const override;
  void Post(Task task) override;
  TimerId PostAt(absl::Time when, Task task) override;
  void Cancel(TimerId timer) override;
  bool InLoop() const override { return std::this_thread::get_id() == thread_.get_id(); }

  // For sockets and descriptors that live on this loop.
  boost::asio::io_context& context() { return context_; }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unordered_map<uint64_t, std::unique_ptr<boost::asio::steady_timer>> timers_;
  uint64_t next_timer_ = 1;
  std::thread thread_;
};

}  // namespace strata
