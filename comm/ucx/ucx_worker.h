#pragma once

#include <ucp/api/ucp.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "comm/asio_loop.h"
#include "comm/interfaces.h"

namespace strata {

// UCX's id of the active messages that announce receives: each an array of tags, as Pack.
inline constexpr unsigned kReadyId = 0;

// A UCX context and worker, restricted to TCP on one interface, that make progress in a loop
// whenever their event descriptor says so; never by polling. Everything is in the loop. Asio's
// handlers share ownership.
class UcxWorker : public std::enable_shared_from_this<UcxWorker> {
 public:
  static absl::StatusOr<std::shared_ptr<UcxWorker>> Create(AsioLoop& loop,
                                                           const Interface& interface);
  ~UcxWorker();

  ucp_worker_h handle() const { return worker_; }

  // The worker's address, as hexadecimal digits.
  const std::string& address() const { return address_; }

  // `handler` is called with each tag that a peer announces, inside a callback of UCX. Without one
  // they are ignored.
  void OnReady(absl::AnyInvocable<void(uint64_t tag)> handler) { on_ready_ = std::move(handler); }

  // To be called after operations are started: they may need progress before the next event.
  void Kick();

  // Makes progress now, until there is nothing to do. Not inside a callback of UCX.
  void ProgressNow();

  // Destroys the worker. UCX calls nobody afterwards.
  void Shutdown();

 private:
  explicit UcxWorker(AsioLoop& loop) : loop_(loop), events_(loop.context()) {}

  absl::Status Init(const Interface& interface);
  absl::Status InitContext(const Interface& interface);
  absl::Status InitAddress();
  static ucs_status_t TakeReady(void* worker, const void* header, size_t header_bytes, void* data,
                                size_t bytes, const ucp_am_recv_param_t* param);
  void WaitEvent();
  void Progress();

  AsioLoop& loop_;
  boost::asio::posix::stream_descriptor events_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  absl::AnyInvocable<void(uint64_t tag)> on_ready_;
  bool kicked_ = false;
};

}  // namespace strata
