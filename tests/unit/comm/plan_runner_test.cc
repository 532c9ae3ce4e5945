#include "comm/plan_runner.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/sim/sim_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/comm/plan_memory.h"
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

// One collective: a run per rank, with its memory and what became of it.
class Collective {
 public:
  Collective(SimCluster& cluster, RandomPlans plans) : cluster_(cluster), plans_(std::move(plans)) {
    for (size_t rank = 0; rank < plans_.plans.size(); ++rank) {
      memory_.push_back(std::make_unique<PlanMemory>(*plans_.plans[rank],
                                                     plans_.plans[rank]->input_bytes / 3));
      std::memcpy(memory_[rank]->input().data(), plans_.inputs[rank].data(),
                  memory_[rank]->input().size());
    }
    results.resize(plans_.plans.size());
    moved.resize(plans_.plans.size(), std::vector<WireBytes>(cluster.topology().level_count()));
  }

  void Start(RunOptions options) {
    for (int rank = 0; rank < cluster_.topology().size(); ++rank) {
      cluster_.gather(Rank{rank}).loop->Post([this, rank, options]() mutable {
        options.moved = moved[rank];
        cluster_.gather(Rank{rank}).runner->Run(
            plans_.plans[rank], memory_[rank]->buffers(), options, [this, rank](absl::Status s) {
              EXPECT_FALSE(results[rank].has_value());
              results[rank] = std::move(s);
            });
      });
    }
  }

  bool ended() const {
    for (const auto& result : results) {
      if (!result) return false;
    }
    return true;
  }

  void ExpectOutputs() {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      ASSERT_TRUE(results[rank].has_value());
      ASSERT_OK(*results[rank]);
      EXPECT_EQ(std::memcmp(memory_[rank]->output().data(), plans_.outputs[rank].data(),
                            memory_[rank]->output().size()),
                0)
          << "rank " << rank;
      for (int level = 0; level < cluster_.topology().level_count(); ++level) {
        WireBytes planned;
        for (const Step& step : plans_.plans[rank]->steps) {
          if (step.level != level) continue;
          if (step.op == Op::kSend) planned.sent += step.src.bytes;
          if (step.op == Op::kRecv) planned.received += step.dst.bytes;
        }
        EXPECT_EQ(moved[rank][level].sent, planned.sent);
        EXPECT_EQ(moved[rank][level].received, planned.received);
      }
    }
  }

  std::vector<std::optional<absl::Status>> results;
  std::vector<std::vector<WireBytes>> moved;

 private:
  SimCluster& cluster_;
  RandomPlans plans_;
  std::vector<std::unique_ptr<PlanMemory>> memory_;
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
  const std::vector<std::vector<int>> shapes = {{1}, {2}, {1, 1}, {2, 2}, {3, 1, 2}, {5}, {1, 1, 1}};
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
      std::vector<std::unique_ptr<Collective>> collectives;
      for (uint32_t operation = 0; operation < 4; ++operation) {
        collectives.push_back(std::make_unique<Collective>(
            cluster, MakeRandomPlans(topology, 150, 211, seed * 10 + operation)));
        collectives.back()->Start({.what = "random", .operation = operation, .order = operation,
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
  Collective collective(cluster, MakeRandomPlans(topology, 12, 600'011, 5));
  collective.Start({.what = "random"});
  ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
  collective.ExpectOutputs();
}

TEST(PlanRunnerTest, RunsOfOnePlanOneAfterTheOther) {
  const Topology topology = Nodes({2, 1});
  SimCluster cluster({.topology = topology, .faults = Weather()});
  const RandomPlans plans = MakeRandomPlans(topology, 60, 31, 9);
  for (uint32_t operation = 0; operation < 5; ++operation) {
    Collective collective(cluster, plans);
    collective.Start({.what = "random", .operation = operation});
    ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
    collective.ExpectOutputs();
  }
}

TEST(PlanRunnerTest, SameSeedSameTrace) {
  const auto run = [](uint64_t seed) {
    const Topology topology = Nodes({2, 2});
    SimCluster cluster({.topology = topology, .seed = seed, .faults = Weather()});
    Collective collective(cluster, MakeRandomPlans(topology, 100, 31, 4));
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
    Collective collective(cluster, MakeRandomPlans(topology, 4000, 211, seed));
    collective.Start({.what = "gather unit \"h.7\"", .operation = 17});
    ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(collective.results[rank].has_value());
      EXPECT_THAT(*collective.results[rank],
                  StatusIs(absl::StatusCode::kUnavailable,
                           AllOf(HasSubstr("gather unit \"h.7\": level "),
                                 HasSubstr("peer 3 (host n1): connection reset"))));
    }
    EXPECT_FALSE(collective.results[3].has_value());
  }
}

TEST(PlanRunnerTest, SilentPeerEndsByDeadlineAndIsNamed) {
  const Topology topology = Nodes({1, 1});
  SimCluster cluster({.topology = topology});
  cluster.Kill(Rank{1}, absl::UnixEpoch() + absl::Milliseconds(1), SimNetwork::Death::kSilent);
  Collective collective(cluster, MakeRandomPlans(topology, 4000, 211, 3));
  const absl::Time deadline = absl::UnixEpoch() + absl::Seconds(10);
  collective.Start({.what = "gather unit \"h.7\"", .operation = 17, .deadline = deadline});
  ASSERT_TRUE(cluster.RunUntil([&] { return collective.results[0].has_value(); }, kEnd));
  EXPECT_EQ(cluster.Now(), deadline);
  EXPECT_THAT(*collective.results[0],
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
    Collective collective(cluster, plans);
    collective.Start({.what = "random", .operation = operation,
                      .deadline = cluster.Now() + absl::Seconds(1)});
    ASSERT_TRUE(cluster.RunUntil([&] { return collective.ended(); }, kEnd));
    collective.ExpectOutputs();
  }
  EXPECT_TRUE(cluster.RunUntilIdle(kEnd));
  EXPECT_LT(cluster.Now(), absl::UnixEpoch() + absl::Seconds(1)) << "a timer was left";
}

}  // namespace
}  // namespace strata
