#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/asio_loop.h"
#include "comm/interfaces.h"
#include "comm/transport.h"
#include "kernels/types.h"

namespace strata {

// Where a peer of a transport is found, as rendezvous learnt it.
struct PeerAddress {
  Rank rank{};
  std::string address;  // TransportFactory::address() of the peer
  std::string host;     // for messages to people
};

// "peer 3 (host b)".
std::string PeerName(const PeerAddress& peer);

struct ConnectOptions {
  Rank self{};
  std::string lane;   // "gather", "reduce": connections of different lanes never meet
  std::string token;  // job token; proves to each other that both ends belong to the job
  absl::Duration timeout = absl::Seconds(30);
};

// One end of a transport before it has peers: listens on one interface and has an address to
// publish. Made before rendezvous, used up by Connect after it.
class TransportFactory {
 public:
  virtual ~TransportFactory() = default;

  // For the peers' PeerAddress. Opaque, printable.
  virtual const std::string& address() const = 0;

  // Connects to all of `peers` (without self; may be empty) and blocks until all are there, at most
  // `timeout`. Once, on any thread but the loop's. The error names the peer and what to change. The
  // transport may be destroyed on any thread while the loop runs; what is pending then ends with
  // Aborted.
  virtual absl::StatusOr<std::unique_ptr<Transport>> Connect(const ConnectOptions& options,
                                                             std::vector<PeerAddress> peers) = 0;
};

// `transport` is "tcp" or "ucx". InvalidArgument for another name and for "ucx" in a build without
// it. `loop` outlives the factory and its transport.
absl::StatusOr<std::unique_ptr<TransportFactory>> MakeTransportFactory(const std::string& transport,
                                                                       AsioLoop& loop,
                                                                       const Interface& interface);

}  // namespace strata
