#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "comm/plan.h"
#include "comm/plan_runner.h"
#include "comm/sim/sim_cluster.h"
#include "tests/support/plan_memory.h"

namespace strata {

// One collective on a simulated cluster: a run of its plan per rank, with the memory of each and
// what became of it. Outlives what the cluster does with it.
class SimCollective {
 public:
  using LaneOf = Lane (SimCluster::*)(Rank);

  // `inputs`: packed, per rank. Input and output memory is in pages of `page_bytes`.
  SimCollective(SimCluster& cluster, LaneOf lane, std::vector<std::shared_ptr<const Plan>> plans,
                const std::vector<std::vector<std::byte>>& inputs, int64_t page_bytes);

  // Posts the runs to the ranks' lanes.
  void Start(const RunOptions& options);

  // All ranks' runs have ended.
  bool ended() const;

  // Each run ended with OK, and moved what its plan says over each level.
  void ExpectComplete() const;

  // The end of a rank's run, if it has come.
  const std::optional<absl::Status>& result(int rank) const { return ranks_[rank]->result; }
  absl::Time end_time(int rank) const { return ranks_[rank]->end_time; }
  std::span<const std::byte> output(int rank) const { return ranks_[rank]->memory.output(); }

 private:
  struct PerRank {
    PerRank(const Plan& plan, int64_t page_bytes, int level_count)
        : memory(plan, page_bytes), moved(level_count) {}
    PlanMemory memory;
    std::vector<WireBytes> moved;
    std::optional<absl::Status> result;
    absl::Time end_time;
  };

  SimCluster& cluster_;
  const LaneOf lane_;
  const std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<std::unique_ptr<PerRank>> ranks_;
};

}  // namespace strata
