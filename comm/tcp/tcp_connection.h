#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/time/time.h"
#include "comm/asio_loop.h"
#include "comm/outbox.h"
#include "comm/tcp/frame_reader.h"
#include "comm/tcp/frame_writer.h"
#include "comm/tcp/inbox.h"
#include "comm/transport.h"
#include "kernels/types.h"

namespace strata {

struct TcpOptions {
  // Per peer and direction: early messages kept for a peer that has not posted their receives.
  int64_t store_bytes = kStoreBytes;
  // A longer message is refused; a longer header is taken for garbage.
  int64_t max_message_bytes = int64_t{1} << 30;
  // Bytes the kernel may hold that are not on the wire yet. More would only sit in front of a
  // message that is needed sooner; less lets the link run dry between two turns of the loop.
  int not_sent_bytes = 128 * 1024;
  // A connection that has not shown the job token by then is dropped.
  absl::Duration handshake_timeout = absl::Seconds(5);
  // How long Close waits for a peer that does not read on.
  absl::Duration close_timeout = absl::Seconds(2);
};

// The connection to one peer after its handshake. All calls are in the loop. Asio's handlers share
// ownership, since they may run after the transport has let go:
// docs/decisions/0040-tcp-lifetime.md.
class TcpConnection final : public std::enable_shared_from_this<TcpConnection>, private FrameSink {
 public:
  // `peer` is how messages name it: "peer 3 (host b)".
  TcpConnection(AsioLoop& loop, boost::asio::ip::tcp::socket socket, std::string peer,
                const TcpOptions& options);

  // Begins to read.
  void Start();

  // `tag` is as OnWire.
  void Send(Tag tag, std::span<const std::byte> view, Done done);
  void Recv(Tag tag, std::span<std::byte> view, Done done);

  // Everything pending and later ends with `why`. The socket stays open until Close, so that the
  // peer does not take our abort for the loss of this rank.
  void Abort(const absl::Status& why);

  // `closed` runs when nothing is pending, what was sent has reached the peer (or it does not read
  // on) and the socket is closed.
  void Close(Task closed);

  // Closes at once; what is pending ends with the first reason.
  void Drop(const absl::Status& why);

  Transport::Counters counters() const { return counters_; }

 private:
  enum class State {
    kOpen,
    kFailing,  // a last frame is being written, input is ignored
    kClosing,  // everything is written, input is ignored until the peer closes too
    kAborted,  // nothing is read or written
    kClosed,
  };

  void OnReceived(EndedReceive ended) override;
  absl::Status OnReady(Tag tag) override;
  absl::Status OnFail(const FrameHeader& header) override;

  void WaitReadable();
  void OnReadable();
  bool ReadOnce();
  bool IgnoreOnce();
  void SchedulePump();
  void Pump();
  bool WriteOnce();
  void WaitWritable();

  void Lose(int error_number);
  void Fail(const absl::Status& status, Tag tag);
  void EndReceives();
  void EndPending();
  bool idle() const;
  void CloseIfIdle();
  void ShutDownSending();
  void CloseSocket();

  AsioLoop& loop_;
  boost::asio::ip::tcp::socket socket_;
  const std::string peer_;
  const TcpOptions options_;
  State state_ = State::kOpen;
  absl::Status status_;  // not OK: what pending and later operations end with
  Task closed_;          // set by Close
  std::optional<TimerId> close_timer_;
  Transport::Counters counters_;
  Inbox inbox_;
  Outbox outbox_;
  FrameReader reader_;
  FrameWriter writer_;
  bool pump_scheduled_ = false, waiting_writable_ = false;
};

}  // namespace strata
