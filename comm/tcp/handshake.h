#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/asio_loop.h"
#include "comm/hmac.h"
#include "kernels/types.h"

namespace strata {

// [Note: Handshake] What passes over a new connection, all of fixed size:
//   connector → acceptor  hello: magic, lane, own rank, rank it looks for, nonce
//   acceptor → connector  challenge: nonce
//   connector → acceptor  HMAC(token, "connector", hello, challenge)
//   acceptor → connector  verdict, HMAC(token, "acceptor", hello, challenge)
// The acceptor proves nothing before the connector has, so that a stranger learns nothing from it.

// Who takes part in a handshake and where.
struct HandshakeIdentity {
  Rank self{};
  std::string lane;
  std::string token;
};

// One handshake over one connected socket, in the loop. Keeps itself alive until `done`.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // Called once, in the loop: OK with the socket and the peer's rank, or what went wrong:
  // FailedPrecondition when the tokens, lanes or ranks differ, Unavailable when the peer went away,
  // DeadlineExceeded, DataLoss when it does not speak this protocol. The socket is closed then.
  using Finished = absl::AnyInvocable<void(absl::Status, Socket, Rank) &&>;

  Handshake(AsioLoop& loop, Socket socket, const HandshakeIdentity& identity, Finished finished);

  // One of these, once.
  void Connect(Rank peer, absl::Duration timeout);
  void Accept(absl::Duration timeout);

  // Ends with `why` unless it has ended.
  void Cancel(const absl::Status& why) { End(why); }

  bool ended() const { return !finished_; }

 private:
  using Next = void (Handshake::*)();

  void Arm(absl::Duration timeout);
  void Read(size_t bytes, Next next);
  void Write(Next next);

  void ReadChallenge();
  void WriteProof();
  void ReadVerdict();
  void CheckVerdict();
  void CheckHello();
  void ReadProof();
  void CheckProof();
  void Accepted();

  Mac Proof(const char* role) const;
  void End(const absl::Status& status);

  AsioLoop& loop_;
  Socket socket_;
  const HandshakeIdentity identity_;
  Finished finished_;
  Rank peer_{};
  TimerId timer_{};
  absl::Status verdict_;
  std::string hello_, challenge_;
  std::string in_, out_;
};

}  // namespace strata
