#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/asio_loop.h"
#include "comm/lane.h"
#include "comm/patient_transport.h"
#include "comm/plan_runner.h"
#include "comm/shm/memory_segments.h"
#include "comm/transport_factory.h"
#include "kernels/host_stream.h"

namespace strata {

// One lane of a World: its thread and all that lives on it. Grows in the order of the calls, each
// made once by the thread that joins the world.
class WorldLane {
 public:
  explicit WorldLane(const std::string& name);
  ~WorldLane();  // not in the loop; what is pending ends with Aborted

  // Listens within the node.
  absl::Status ListenInNode(const MemorySegments& segments);
  // Listens between nodes, by "tcp" or "ucx".
  absl::Status ListenBetweenNodes(const std::string& transport, const Interface& interface);

  // Empty where this rank does not listen.
  std::string node_address() const { return node_ == nullptr ? "" : node_->address(); }
  std::string network_address() const { return network_ == nullptr ? "" : network_->address(); }

  struct Peers {
    std::vector<PeerAddress> node;     // by node_address
    std::vector<PeerAddress> network;  // by network_address
  };
  // Blocks. `patience` as of PatientTransport.
  absl::Status Connect(ConnectOptions options, Peers peers, absl::Duration patience);

  // Level 0 goes within the node, all others between nodes.
  void Start(PlanRunner::Options options);

  // Ends what runs, now and later, with `why`, and the transports. Not in the loop; after Start.
  void Close(absl::Status why);

  AsioLoop& loop() { return loop_; }
  Lane view() { return {&loop_, stream_.get(), runner_.get()}; }

 private:
  const std::string name_;
  AsioLoop loop_;
  std::unique_ptr<HostStream> stream_;
  std::unique_ptr<TransportFactory> node_, network_;
  std::vector<std::unique_ptr<PatientTransport>> transports_;  // within the node, between nodes
  std::unique_ptr<PlanRunner> runner_;
};

}  // namespace strata
