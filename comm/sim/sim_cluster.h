#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "comm/lane.h"
#include "comm/plan_runner.h"
#include "comm/sim/sim_network.h"
#include "comm/sim/sim_stream.h"
#include "comm/sim/sim_transport.h"
#include "comm/sim/sim_world.h"
#include "comm/topology.h"

namespace strata {

// What goes wrong in a simulated cluster, drawn from its seed.
struct SimFaults {
  absl::Duration start_skew = absl::ZeroDuration();     // each rank begins up to this late
  absl::Duration task_delay = absl::ZeroDuration();     // each task takes up to this much longer
  absl::Duration message_delay = absl::ZeroDuration();  // each message takes up to this much longer
  // So many ranks, and as many links, stand still at random times within `stall_window` of the
  // start, each for up to `stall_length`.
  int stalls = 0;
  absl::Duration stall_length = absl::ZeroDuration();
  absl::Duration stall_window = absl::ZeroDuration();
};

struct SimClusterOptions {
  Topology topology = Topology::Uniform(2, 2);  // its links are the simulated ones
  uint64_t seed = 1;
  SimFaults faults;
  std::vector<int64_t> credit_bytes;             // per level; empty: 1 MiB each
  int64_t early_bytes = SimNetwork::kUnlimited;  // see SimNetwork::Options
  int64_t kernel_bytes_per_second = 0;  // of each lane's host kernels; 0: they take no time
};

// All ranks of a job in one thread and virtual time. Per rank three loops: control, gather lane and
// reduce lane, each lane with its runner over its own transport. What lives on the loops is ended
// by its owner before the cluster, or its Dones are dropped with it.
class SimCluster {
 public:
  explicit SimCluster(SimClusterOptions options);
  ~SimCluster();

  const Topology& topology() const { return network_.topology(); }
  SimWorld& world() { return world_; }
  SimNetwork& network() { return network_; }
  absl::Time Now() const { return world_.Now(); }

  SimLoop& control(Rank rank) { return *ranks_[Index(rank)].control; }
  Lane gather(Rank rank) { return ranks_[Index(rank)].gather->view(); }
  Lane reduce(Rank rank) { return ranks_[Index(rank)].reduce->view(); }

  // At `when`, the rank's loops stop for good and its messages with them. See SimNetwork::Kill.
  void Kill(Rank rank, absl::Time when, SimNetwork::Death death);
  // At `when`, the rank's loops run nothing for `length`.
  void StallRank(Rank rank, absl::Time when, absl::Duration length);
  // At `when`, the rank's connection to `level` takes nothing new for `length`.
  void StallLink(Rank rank, int level, absl::Time when, absl::Duration length);

  // See SimWorld.
  bool RunUntilIdle(absl::Time deadline) { return world_.RunUntilIdle(deadline); }
  bool RunUntil(absl::FunctionRef<bool()> done, absl::Time deadline) {
    return world_.RunUntil(done, deadline);
  }

 private:
  struct SimLane {
    SimLane(SimNetwork& network, Rank rank, int lane, SimLoop& loop,
            const SimClusterOptions& options);
    Lane view() { return {.loop = loop, .stream = &stream, .runner = &runner}; }

    SimLoop* const loop;
    std::unique_ptr<SimTransport> transport;
    SimStream stream;
    PlanRunner runner;
  };
  struct PerRank {
    SimLoop* control = nullptr;
    std::unique_ptr<SimLane> gather, reduce;
  };

  void DrawFaults(const SimFaults& faults);

  SimWorld world_;
  SimNetwork network_;
  std::vector<PerRank> ranks_;
};

}  // namespace strata
