// How close collectives of 64 MiB come to the bound of their topology, in virtual time.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "comm/layout.h"
#include "comm/plan.h"
#include "comm/shard_layout.h"
#include "comm/sim/sim_cluster.h"
#include "tests/support/sim_collective.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr int64_t kBytes = 64 << 20;
constexpr int64_t kSlowRate = 119'000'000;  // the payload of 1 Gbit/s
constexpr Link kFast{.bytes_per_second = 5'000'000'000, .latency = absl::Microseconds(5)};
constexpr Link kSlow{.bytes_per_second = kSlowRate, .latency = absl::Microseconds(50)};

enum class Operation { kGather, kReduce };

struct Case {
  Operation operation;
  int nodes, ranks_per_node;
};

std::vector<std::shared_ptr<const Plan>> PlansOf(const Topology& topology, Operation operation) {
  const UnitShards shards = *MakeUnitShards(topology, *ParseLayout("zero3", topology), kBytes / 4);
  std::vector<std::shared_ptr<const Plan>> plans;
  for (int rank = 0; rank < topology.size(); ++rank) {
    auto plan = operation == Operation::kGather
                    ? PlanGather(topology, shards.parameters, shards.full, Rank{rank}, {})
                    : PlanReduce(topology, shards.full, shards.gradients,
                                 LevelSet::All(topology.level_count()), Rank{rank}, {});
    EXPECT_OK(plan);
    plans.push_back(std::make_shared<const Plan>(*std::move(plan)));
  }
  return plans;
}

class BandwidthTest : public testing::TestWithParam<Case> {};

TEST_P(BandwidthTest, IsNearTheBound) {
  const Case& c = GetParam();
  const Topology topology =
      *Topology::Create({{"node", std::vector<int>(c.nodes, c.ranks_per_node), kFast},
                         {"cluster", {c.nodes}, kSlow}});
  SimCluster cluster({.topology = topology, .kernel_bytes_per_second = 10'000'000'000});
  const auto plans = PlansOf(topology, c.operation);
  std::vector<std::vector<std::byte>> inputs;
  for (const auto& plan : plans) inputs.emplace_back(plan->input_bytes);
  SimCollective collective(
      cluster, c.operation == Operation::kGather ? &SimCluster::gather : &SimCluster::reduce, plans,
      inputs, kBytes);
  collective.Start({.what = "bandwidth"});
  ASSERT_TRUE(cluster.RunUntilIdle(absl::UnixEpoch() + absl::Minutes(1)));
  collective.ExpectComplete();

  const double bound = static_cast<double>(kBytes) * (c.nodes - 1) / c.nodes / kSlowRate;
  const double seconds = absl::ToDoubleSeconds(cluster.Now() - absl::UnixEpoch());
  std::printf("%s %dx%d: %.4f s, bound %.4f s, %.1f %% of the bound, %lld bytes per node\n",
              c.operation == Operation::kGather ? "gather" : "reduce", c.nodes, c.ranks_per_node,
              seconds, bound, 100 * bound / seconds,
              static_cast<long long>(cluster.network().SentBytes(Rank{0}, 1)));
  EXPECT_LE(seconds, 1.02 * bound);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BandwidthTest,
    testing::Values(Case{Operation::kGather, 4, 2}, Case{Operation::kGather, 2, 4},
                    Case{Operation::kReduce, 4, 2}, Case{Operation::kReduce, 2, 4}),
    [](const auto& info) {
      return std::string(info.param.operation == Operation::kGather ? "Gather" : "Reduce") +
             std::to_string(info.param.nodes) + "x" + std::to_string(info.param.ranks_per_node);
    });

}  // namespace
}  // namespace strata
