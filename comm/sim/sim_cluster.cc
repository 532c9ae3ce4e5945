#include "comm/sim/sim_cluster.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata {
namespace {

constexpr int64_t kDefaultCreditBytes = 1 << 20;

PlanRunner::Options RunnerOptions(const SimNetwork& network, const SimClusterOptions& options) {
  PlanRunner::Options runner;
  runner.credit_bytes = options.credit_bytes;
  for (const Level& level : options.topology.levels()) runner.level_names.push_back(level.name);
  runner.rank_name = [&network](Rank rank) {
    return absl::StrCat("rank ", Index(rank), " (host ", network.HostName(rank), ")");
  };
  return runner;
}

}  // namespace

SimCluster::SimLane::SimLane(SimNetwork& network, Rank rank, int lane, SimLoop& loop_in,
                             const SimClusterOptions& options)
    : loop(&loop_in),
      transport(network.MakeTransport(rank, lane, loop_in)),
      stream(loop_in, options.kernel_bytes_per_second),
      runner(loop_in, stream,
             std::vector<Transport*>(options.topology.level_count(), transport.get()),
             RunnerOptions(network, options)) {}

SimCluster::SimCluster(SimClusterOptions options)
    : world_({.seed = options.seed, .task_delay = options.faults.task_delay}),
      network_(
          world_, options.topology,
          {.message_delay = options.faults.message_delay, .early_bytes = options.early_bytes}) {
  if (options.credit_bytes.empty()) {
    options.credit_bytes.assign(topology().level_count(), kDefaultCreditBytes);
  }
  for (int rank = 0; rank < topology().size(); ++rank) {
    PerRank made;
    made.control = &world_.MakeLoop(absl::StrCat("control ", rank));
    for (const int lane : {0, 1}) {
      SimLoop& loop = world_.MakeLoop(absl::StrCat(lane == 0 ? "gather " : "reduce ", rank));
      (lane == 0 ? made.gather : made.reduce) =
          std::make_unique<SimLane>(network_, Rank{rank}, lane, loop, options);
    }
    ranks_.push_back(std::move(made));
  }
  DrawFaults(options.faults);
}

SimCluster::~SimCluster() = default;

void SimCluster::DrawFaults(const SimFaults& faults) {
  for (PerRank& rank : ranks_) {
    const absl::Duration late = world_.RandomUpTo(faults.start_skew);
    for (SimLoop* loop : {rank.control, rank.gather->loop, rank.reduce->loop}) loop->Occupy(late);
  }
  for (int i = 0; i < faults.stalls; ++i) {
    const Rank rank{static_cast<int32_t>(world_.Random(ranks_.size()))};
    const Rank other{static_cast<int32_t>(world_.Random(ranks_.size()))};
    const int level = static_cast<int>(world_.Random(topology().level_count()));
    StallRank(rank, Now() + world_.RandomUpTo(faults.stall_window),
              world_.RandomUpTo(faults.stall_length));
    StallLink(other, level, Now() + world_.RandomUpTo(faults.stall_window),
              world_.RandomUpTo(faults.stall_length));
  }
}

void SimCluster::Kill(Rank rank, absl::Time when, SimNetwork::Death death) {
  world_.At(when, [this, rank, death] {
    PerRank& killed = ranks_[Index(rank)];
    for (SimLoop* loop : {killed.control, killed.gather->loop, killed.reduce->loop}) loop->Stop();
    network_.Kill(rank, death);
  });
}

void SimCluster::StallRank(Rank rank, absl::Time when, absl::Duration length) {
  world_.At(when, [this, rank, length] {
    world_.Probe("rank stall");
    PerRank& stalled = ranks_[Index(rank)];
    for (SimLoop* loop : {stalled.control, stalled.gather->loop, stalled.reduce->loop}) {
      loop->Occupy(length);
    }
  });
}

void SimCluster::StallLink(Rank rank, int level, absl::Time when, absl::Duration length) {
  world_.At(when, [this, rank, level, length] { network_.Stall(rank, level, length); });
}

}  // namespace strata
