#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/asio_loop.h"
#include "comm/shm/memory_segments.h"
#include "comm/transport_factory.h"

namespace strata {

// The transport within a node before it has peers: a Unix socket with a random abstract name, which
// only processes of this network namespace reach. Peers must run under the same user, and both ends
// prove that they hold the job token, over role, lane, ranks and nonces ([Note: Handshake] of tcp
// says why in this order). Anybody else is turned away.
class ShmListener final : public TransportFactory {
 public:
  // `segments` outlives the transport.
  static absl::StatusOr<std::unique_ptr<TransportFactory>> Create(AsioLoop& loop,
                                                                  const MemorySegments& segments);
  ~ShmListener() override;

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> Connect(const ConnectOptions& options,
                                                     std::vector<PeerAddress> peers) override;

 private:
  ShmListener(AsioLoop& loop, const MemorySegments& segments, int fd, std::string address)
      : loop_(loop), segments_(segments), fd_(fd), address_(std::move(address)) {}

  AsioLoop& loop_;
  const MemorySegments& segments_;
  int fd_;
  const std::string address_;
};

}  // namespace strata
