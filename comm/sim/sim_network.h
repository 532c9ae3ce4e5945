#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comm/sim/sim_transport.h"
#include "comm/sim/sim_world.h"
#include "comm/topology.h"
#include "comm/transport.h"

namespace strata {

// What a message is to the network: lent by the sender until it has left, then a copy. Its sender
// waits for it until `sent`.
struct SimMessage {
  SimTransport* sender = nullptr;
  Rank from{}, to{};
  int lane = 0;
  Tag tag;
  std::span<const std::byte> view;
  std::unique_ptr<std::byte[]> payload;
  Done sent;
  bool cancelled = false;  // before `sent`
  bool stored = false;     // counts among the early bytes of its receiver
};

// The links of a topology in virtual time. Each child group of each level has one connection to its
// level: it sends in one queue and receives in another, at the level's rate, in the order of
// arrival, however many ranks and lanes share it. A level of unknown rate takes no time. Messages
// between two ranks stay in order.
class SimNetwork {
 public:
  struct Options {
    // Each message is up to this much later than the latency of its level, at random.
    absl::Duration message_delay = absl::ZeroDuration();
    // What a transport keeps of one peer's messages before their receives are posted. A send that
    // comes early and finds no room there is done when its receive is posted.
    int64_t early_bytes = kUnlimited;
  };
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // `world` outlives the network, the network outlives its transports.
  SimNetwork(SimWorld& world, Topology topology, const Options& options);

  // Transports of one lane talk to each other. At most one per rank and lane.
  std::unique_ptr<SimTransport> MakeTransport(Rank self, int lane, SimLoop& loop);

  // The connection of `rank`'s child group of `level` takes nothing new in either direction for
  // `length` from now on.
  void Stall(Rank rank, int level, absl::Duration length);

  enum class Death { kReset, kSilent };
  // What `rank` has not sent yet is never sent. kReset: its peers get Unavailable after one
  // latency; kSilent: they are told nothing. Its loops are the caller's to stop.
  void Kill(Rank rank, Death death);

  // Payload bytes that the child group of `rank` at `level` has put on its connection.
  int64_t SentBytes(Rank rank, int level) const {
    return connections_[level][Child(rank, level)].sent_bytes;
  }

  int64_t early_bytes() const { return options_.early_bytes; }

  // "n1": hosts are named after the innermost groups.
  std::string HostName(Rank rank) const;

  const Topology& topology() const { return topology_; }
  SimWorld& world() { return world_; }

 private:
  friend class SimTransport;

  struct Connection {
    absl::Time egress_free = absl::InfinitePast();
    absl::Time ingress_free = absl::InfinitePast();
    int64_t sent_bytes = 0;
  };

  int Child(Rank rank, int level) const;
  SimTransport*& At(int lane, Rank rank);
  // `message` is handed over by its sender at `when`.
  void Send(std::shared_ptr<SimMessage> message, absl::Time when);
  void Enter(const std::shared_ptr<SimMessage>& message);
  void Leave(const std::shared_ptr<SimMessage>& message);
  void ReachIngress(const std::shared_ptr<SimMessage>& message, int level);
  void Arrive(const std::shared_ptr<SimMessage>& message);
  // The receiver has a place for it: its sender learns so after one latency.
  void Accept(std::shared_ptr<SimMessage> message);
  // Every transport of `lane` (of all, for -1) learns that it has lost `rank`.
  void BreakConnections(Rank rank, int lane, const std::string& why);
  void Remove(int lane, Rank rank) { At(lane, rank) = nullptr; }

  SimWorld& world_;
  const Topology topology_;
  const Options options_;
  std::vector<std::vector<Connection>> connections_;    // [level][child group]
  std::vector<std::vector<int>> first_child_;           // [level][group]: index of its first child
  std::vector<std::vector<SimTransport*>> transports_;  // [lane][rank]
  std::vector<absl::Time> last_arrival_;                // [from * size + to]
  std::vector<bool> dead_;
};

}  // namespace strata
