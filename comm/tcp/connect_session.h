#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "comm/asio_loop.h"
#include "comm/tcp/handshake.h"
#include "comm/tcp/tcp_connection.h"
#include "comm/transport_factory.h"

namespace strata {

// Brings one rank's connections up: dials the peers of lower rank, accepts those of higher rank,
// and turns strangers away. In the loop; keeps itself alive until it has finished.
class ConnectSession : public std::enable_shared_from_this<ConnectSession> {
 public:
  using Acceptor = boost::asio::ip::tcp::acceptor;
  using Socket = boost::asio::ip::tcp::socket;
  // One socket per peer, in the order of the peers.
  using Finished = absl::AnyInvocable<void(absl::StatusOr<std::vector<Socket>>) &&>;

  ConnectSession(AsioLoop& loop, Acceptor& acceptor, const TcpOptions& tcp_options,
                 ConnectOptions options, std::vector<PeerAddress> peers);

  // `finished` is called once, in the loop. Nothing listens any more then.
  void Start(Finished finished);

 private:
  void Dial(size_t peer);
  void OnDialled(size_t peer, Socket socket);
  void AcceptNext();
  void OnAccepted(Socket socket);
  void OnHandshake(const std::string& from, const absl::Status& status, Socket socket, Rank rank);
  void Connected(size_t peer, Socket socket);
  void OnDeadline();
  void Finish(absl::StatusOr<std::vector<Socket>> result);
  HandshakeIdentity identity() const;

  AsioLoop& loop_;
  Acceptor& acceptor_;
  const boost::asio::ip::address local_address_;
  const TcpOptions tcp_options_;
  const ConnectOptions options_;
  const std::vector<PeerAddress> peers_;
  Finished finished_;
  TimerId deadline_{};
  std::vector<std::optional<Socket>> sockets_;  // by index of the peer
  size_t connected_ = 0;
  std::list<std::shared_ptr<Handshake>> accepting_;  // not proven yet, oldest first
  int refused_ = 0;
  std::string last_refusal_;
};

}  // namespace strata
