#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comm/asio_loop.h"
#include "comm/outbox.h"
#include "comm/transport.h"
#include "comm/transport_factory.h"
#include "comm/ucx/ucx_worker.h"
#include "kernels/types.h"

namespace strata {

// UCX's endpoint to one peer and what is pending with it. UCX keeps what comes before its receive
// in its heap; how much that is, senders bound ([Note: Ready] in comm/outbox.h). UCX binds a posted
// receive to no endpoint and cannot cancel a send over TCP, so receives are kept here to be failed
// when the peer is lost, and failed sends end after the endpoint has been closed by force.
// Everything is in the loop; tasks that outlive the transport share ownership.
//
// [Note: Lent to UCX] A receive whose message has begun to arrive cannot be cancelled, and closing
// an endpoint does not stop what its peer sends. Its buffer comes back when the message has
// arrived, when the peer is lost, or when the worker is destroyed; never earlier.
class UcxPeer : public std::enable_shared_from_this<UcxPeer> {
 public:
  UcxPeer(AsioLoop& loop, std::shared_ptr<UcxWorker> worker, Rank self, const PeerAddress& address);

  // Makes the endpoint and exchanges an empty message each way. `met` is called once, when the peer
  // has answered or is lost.
  void Open(Done met);

  // `tag` is as OnWire.
  void Send(Tag tag, std::span<const std::byte> view, Done done);
  void Recv(Tag tag, std::span<std::byte> view, Done done);

  // The peer has announced a receive. `tag` is as Unpack. May be inside a callback of UCX.
  void OnReady(Tag tag);

  // Everything pending and later ends with `why`: receives now, the rest when UCX gives it back.
  // The endpoint stays, so that the peer does not take our abort for the loss of this rank.
  void Abort(const absl::Status& why);
  bool busy() const {
    return !sends_.empty() || !receives_.empty() || !outbox_.empty() || !ready_.empty();
  }

  // `closed` runs when nothing is pending, everything is handed to the kernel and the endpoint is
  // closed.
  void Close(Task closed);

  // Begins to close by force; closing() until it has ended.
  void Drop(const absl::Status& why);
  bool closing() const { return closing_; }

  // After the worker has been destroyed: ends what it held.
  void EndAll();

  const std::string& name() const { return name_; }
  Transport::Counters counters() const { return counters_; }

 private:
  // kVerdict: the standing receive for the peer's word that the ranks are out of step.
  enum class Kind { kSend, kReceive, kVerdict };

  struct Operation {
    UcxPeer* peer = nullptr;
    Kind kind = Kind::kSend;
    uint64_t tag = 0;
    size_t bytes = 0;
    Done done;  // null: ended without UCX, which still holds the operation
    void* request = nullptr;
    ucp_tag_recv_info_t info = {};
    bool starting = true;               // inside the call of UCX that takes it
    std::optional<ucs_status_t> ended;  // within that call
    std::list<Operation>::iterator self;
  };
  using Operations = std::list<Operation>;

  void Announce(uint64_t tag);
  void SchedulePump();
  void SendReady();
  void SendMessages();

  Operations& ListOf(Kind kind);
  static ucp_request_param_t ParamOf(Operation& operation);
  void StartSend(uint64_t tag, std::span<const std::byte> view, Done done);
  void StartReceive(Kind kind, uint64_t tag, uint64_t mask, std::span<std::byte> view, Done done);
  Operation& Add(Kind kind, uint64_t tag, size_t bytes, Done done);
  void Started(Operation& operation, ucs_status_ptr_t result);
  static void CalledBack(void* request, ucs_status_t status, Operation& operation);
  void End(Operation& operation, ucs_status_t status);
  absl::Status StatusOf(const Operation& operation, ucs_status_t status);

  void AwaitVerdict();
  void OnVerdict();
  void OutOfStepAt(uint32_t operation);
  void LoseConnection(ucs_status_t status);
  void Lose(const absl::Status& why);
  void Fail(const absl::Status& why);
  void CancelReceives();
  void CloseByForce();
  void Closed();
  void CloseIfIdle();
  void Flush();

  static void OnSent(void* request, ucs_status_t status, void* operation);
  static void OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                         void* operation);
  static void OnError(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  AsioLoop& loop_;
  const std::shared_ptr<UcxWorker> worker_;
  const Rank self_;
  const PeerAddress address_;
  const std::string name_;
  ucp_ep_h endpoint_ = nullptr;
  bool closing_ = false;  // by force
  bool lost_ = false;     // by the peer's doing: what has arrived can still be received
  absl::Status status_;   // not OK: what pending and later operations end with
  Operations sends_, receives_, verdicts_;
  Operations given_up_;  // ended without UCX, which comes back to them never or to no effect
  Outbox outbox_{kStoreBytes / kStoreBlockBytes};
  std::vector<uint64_t> ready_;  // receives to announce, as Pack of this rank
  bool pump_scheduled_ = false;
  uint32_t verdict_ = 0;      // operation at which the peer finds the ranks out of step
  uint32_t own_verdict_ = 0;  // and this rank
  Transport::Counters counters_;
  Task closed_;  // set by Close
  std::optional<TimerId> flush_timer_;
};

}  // namespace strata
