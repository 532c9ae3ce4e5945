#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/asio_loop.h"
#include "comm/interfaces.h"
#include "comm/tcp/tcp_connection.h"
#include "comm/transport_factory.h"

namespace strata {

// The TCP transport before it has peers: one listening socket on one interface. Connections come
// from peers of higher rank and go to peers of lower rank, both bound to the interface's address,
// and both ends prove that they hold the job token (handshake.h). What follows is not encrypted.
// Strangers are turned away without disturbing anybody; after Connect nothing listens any more.
class TcpListener final : public TransportFactory {
 public:
  // Unavailable when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<TransportFactory>> Create(AsioLoop& loop,
                                                                  const Interface& interface,
                                                                  const TcpOptions& options);

  // "10.0.0.1:40123".
  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> Connect(const ConnectOptions& options,
                                                     std::vector<PeerAddress> peers) override;

 private:
  TcpListener(AsioLoop& loop, boost::asio::ip::tcp::acceptor acceptor, const TcpOptions& options);

  AsioLoop& loop_;
  boost::asio::ip::tcp::acceptor acceptor_;
  const TcpOptions options_;
  std::string address_;
};

}  // namespace strata
