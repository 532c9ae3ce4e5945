#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/asio_loop.h"
#include "comm/interfaces.h"
#include "comm/transport_factory.h"

namespace strata {

class UcxWorker;

// The UCX transport before it has peers: a worker restricted to TCP on one interface. Its traffic
// is neither authenticated nor encrypted: on a network with strangers, use tcp.
class UcxEndpoint final : public TransportFactory {
 public:
  // Unavailable when UCX cannot use the interface. On any thread.
  static absl::StatusOr<std::unique_ptr<TransportFactory>> Create(AsioLoop& loop,
                                                                  const Interface& interface);
  ~UcxEndpoint() override;

  // The worker's address, as hexadecimal digits.
  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> Connect(const ConnectOptions& options,
                                                     std::vector<PeerAddress> peers) override;

 private:
  UcxEndpoint(AsioLoop& loop, std::shared_ptr<UcxWorker> worker);

  AsioLoop& loop_;
  std::shared_ptr<UcxWorker> worker_;
  const std::string address_;
};

}  // namespace strata
