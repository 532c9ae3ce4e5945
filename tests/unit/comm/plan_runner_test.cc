#include "comm/plan_runner.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "comm/sim/sim_cluster.h"
#include "tests/support/sim_collective.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/comm/random_plans.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Link kFast{.bytes_per_second = 2'000'000'000, .latency = absl::Microseconds(2)};
constexpr Link kSlow{.bytes_per_second = 12'500'000, .latency = absl::Microseconds(50)};
const absl::Time kEnd = absl::UnixEpoch() + absl::Minutes(10);

Topology Nodes(std::vector<int> ranks) {
  const int nodes = static_cast<int>(ranks.size());
  return *Topology::Create({{"node", std::move(ranks), kFast}, {"cluster", {nodes}, kSlow}});
}

// A run of random plans, with what they should give.
class RandomCollective : public SimCollective {
 public:
  RandomCollective(SimCluster& cluster, const RandomPlans& plans)
      : SimCollective(cluster, &SimCluster::gather, plans.plans, plans.inputs,
                      plans.plans[0]->input_bytes / 3),
        expected_(plans.outputs) {}

  void ExpectOutputs() const {
    ExpectComplete();
    for (size_t rank = 0; rank < expected_.size(); ++rank) {
      EXPECT_TRUE(std::ranges::equal(output(rank), expected_[rank])) << "rank " << rank;
    }
  }

 private:
  const std::vector<std::vector<std::byte>> expected_;
};

SimFaults Weather() {
  return {.start_skew = absl::Milliseconds(3),
          .task_delay = absl::Microseconds(30),
          .message_delay = absl::Microseconds(500),
          .stalls = 2,
          .stall_length = absl::Milliseconds(5),
          .stall_window = absl::Milliseconds(5)};
}

TEST(PlanRunnerTest, WalksRandomPlansOfSeveralRunsAtOnce) {
  const std::vector<std::vector<int>> shapes = {{1},       {2}, {1, 1},   {2, 2},
                                                {3, 1, 2}, {5}, {1, 1, 1}};
  uint64_t seed = 1;
  for (const auto& shape : shapes) {
    for (const int64_t credit : {int64_t{1}, int64_t{5000}, int64_t{1} << 20}) {
      ++seed;
      const Topology topology = Nodes(shape);
      SimCluster cluster({.topology = topology,
                          .seed = seed,
                          .faults = Weather(),
                          .credit_bytes = {credit, credit},
                          .kernel_bytes_per_second = 5'000'000'000});
      std::vector<std::unique_ptr<RandomCollective>> collectives;
      for (uint32_t operation = 0; operation < 4; ++operation) {
        collectives.push_back(std::make_unique<RandomCollective>(
            cluster, MakeRandomPlans(topology, 150, 211, seed * 10 + operation)));
        collectives.back()->Start({.what = "random",
                                   .operation = operation,
                                   .order = operation,
                                   .priority = 3 - operation});
      }
      ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
      for (auto& collective : collectives) collective->ExpectOutputs();
    }
  }
}

TEST(PlanRunnerTest, SplitsLargeCopiesAndSums) {
  const Topology topology = Nodes({2});
  SimCluster cluster({.topology = topology});
  // Slots of more than 2 MiB that no whole number of tasks fills.
  RandomCollective collective(cluster, MakeRandomPlans(topology, 12, 600'011, 5));
  collective.Start({.what = "random"});
  ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
  collective.ExpectOutputs();
}

TEST(PlanRunnerTest, RunsOfOnePlanOneAfterTheOther) {
  const Topology topology = Nodes({2, 1});
  SimCluster cluster({.topology = topology, .faults = Weather()});
  const RandomPlans plans = MakeRandomPlans(topology, 60, 31, 9);
  for (uint32_t operation = 0; operation < 5; ++operation) {
    RandomCollective collective(cluster, plans);
    collective.Start({.what = "random", .operation = operation});
    ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
    collective.ExpectOutputs();
  }
}

TEST(PlanRunnerTest, SameSeedSameTrace) {
  const auto run = [](uint64_t seed) {
    const Topology topology = Nodes({2, 2});
    SimCluster cluster({.topology = topology, .seed = seed, .faults = Weather()});
    RandomCollective collective(cluster, MakeRandomPlans(topology, 100, 31, 4));
    collective.Start({.what = "random"});
    EXPECT_TRUE(cluster.RunUntilIdle(kEnd));
    collective.ExpectOutputs();
    return cluster.world().trace_hash();
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(PlanRunnerTest, LostPeerEndsTheRunsOfAllAndIsNamed) {
  const Topology topology = Nodes({2, 2});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimCluster cluster({.topology = topology, .seed = seed, .faults = Weather()});
    cluster.Kill(Rank{3}, absl::UnixEpoch() + absl::Milliseconds(4), SimNetwork::Death::kReset);
    RandomCollective collective(cluster, MakeRandomPlans(topology, 4000, 211, seed));
    collective.Start({.what = "gather unit \"h.7\"", .operation = 17});
    ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(collective.result(rank).has_value());
      EXPECT_THAT(*collective.result(rank),
                  StatusIs(absl::StatusCode::kUnavailable,
                           AllOf(HasSubstr("gather unit \"h.7\": level "),
                                 HasSubstr("peer 3 (host n1): connection reset"))));
    }
    EXPECT_FALSE(collective.result(3).has_value());
  }
}

TEST(PlanRunnerTest, SilentPeerEndsByDeadlineAndIsNamed) {
  const Topology topology = Nodes({1, 1});
  SimCluster cluster({.topology = topology});
  cluster.Kill(Rank{1}, absl::UnixEpoch() + absl::Milliseconds(1), SimNetwork::Death::kSilent);
  RandomCollective collective(cluster, MakeRandomPlans(topology, 4000, 211, 3));
  const absl::Time deadline = absl::UnixEpoch() + absl::Seconds(10);
  collective.Start({.what = "gather unit \"h.7\"", .operation = 17, .deadline = deadline});
  ASSERT_TRUE(cluster.RunUntil([&] { return collective.result(0).has_value(); }, kEnd));
  EXPECT_EQ(cluster.Now(), deadline);
  EXPECT_THAT(*collective.result(0),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("gather unit \"h.7\": operation 17: no progress from rank 1 "
                                       "(host n1) (level cluster)"),
                             HasSubstr(" steps done"))));
}

TEST(PlanRunnerTest, DeadlineOfAnEndedRunHasNoEffect) {
  const Topology topology = Nodes({2, 2});
  SimCluster cluster({.topology = topology});
  const RandomPlans plans = MakeRandomPlans(topology, 30, 31, 4);
  for (uint32_t operation = 0; operation < 3; ++operation) {
    RandomCollective collective(cluster, plans);
    collective.Start(
        {.what = "random", .operation = operation, .deadline = cluster.Now() + absl::Seconds(1)});
    ASSERT_TRUE(cluster.RunUntil([&] { return collective.ended(); }, kEnd));
    collective.ExpectOutputs();
  }
  EXPECT_TRUE(cluster.RunUntilIdle(kEnd));
  EXPECT_LT(cluster.Now(), absl::UnixEpoch() + absl::Seconds(1)) << "a timer was left";
}

}  // namespace
}  // namespace strata
