// How near plans come to the least time that their bytes need, in virtual time.
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "comm/plan.h"
#include "comm/sim/sim_cluster.h"
#include "tests/support/shapes.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr Link kInNode{2'000'000'000, absl::Microseconds(5)};
constexpr Link kBetweenNodes{12'500'000, absl::Microseconds(100)};
constexpr int64_t kChunkBytes = 64 * 1024;

struct Buffers {
  explicit Buffers(const Plan& plan)
      : input(plan.input_bytes),
        output(plan.output_bytes),
        scratch(plan.scratch_bytes),
        pages{input.data(), output.data(), scratch.data()} {}
  PlanBuffers view() const {
    const auto buffer = [this](int i, const std::vector<std::byte>& bytes) {
      return PlanBuffer{{&pages[i], 1}, std::max<int64_t>(bytes.size(), 1)};
    };
    return {buffer(0, input), buffer(1, output), buffer(2, scratch)};
  }

  std::vector<std::byte> input, output, scratch;
  std::vector<std::byte*> pages;
};

// The virtual time that the plans of all ranks take together, divided by their bound.
double TimesBound(const Topology& topology, std::vector<Plan> plans) {
  const absl::Duration bound = Estimate(plans, topology);
  SimCluster cluster({.topology = topology, .kernel_bytes_per_second = 4'000'000'000});
  const absl::Time start = cluster.Now();
  absl::Time end = start;
  std::vector<std::unique_ptr<Buffers>> buffers;
  int running = topology.size();
  for (int rank = 0; rank < topology.size(); ++rank) {
    buffers.push_back(std::make_unique<Buffers>(plans[rank]));
    const Lane lane = cluster.gather(Rank{rank});
    auto plan = std::make_shared<const Plan>(std::move(plans[rank]));
    lane.loop->Post([&, lane, plan, view = buffers.back()->view()] {
      lane.runner->Run(plan, view, {.what = "test", .operation = 1},
                       [&, lane](absl::Status status) {
                         EXPECT_OK(status);
                         end = std::max(end, lane.loop->Now());
                         --running;
                       });
    });
  }
  EXPECT_TRUE(cluster.RunUntil([&] { return running == 0; }, start + absl::Hours(1)));
  return absl::FDivDuration(end - start, bound);
}

Topology Cluster(int nodes, int ranks) {
  return *Topology::Create(
      {{"node", std::vector<int>(nodes, ranks), kInNode}, {"cluster", {nodes}, kBetweenNodes}});
}

class PlanBoundTest : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  UnitShards Shards(const char* preset) const {
    return *MakeUnitShards(topology_, *ParseLayout(preset, topology_), 2 * 1024 * 1024);
  }
  // Ranks of a reduce wait for each other: where shards are not whole chunks, each round may cost
  // one.
  void ExpectAtBound(const absl::FunctionRef<absl::StatusOr<Plan>(Rank)> make,
                     double times = 1.01) const {
    std::vector<Plan> plans;
    for (int rank = 0; rank < topology_.size(); ++rank) plans.push_back(*make(Rank{rank}));
    EXPECT_LT(TimesBound(topology_, std::move(plans)), times);
  }

  const Topology topology_ = Cluster(GetParam().first, GetParam().second);
  const PlanOptions options_{DType::kF32, kChunkBytes};
};

TEST_P(PlanBoundTest, Gather) {
  for (const char* preset : {"zero3", "across"}) {
    const UnitShards shards = Shards(preset);
    ExpectAtBound([&](Rank rank) {
      return PlanGather(topology_, shards.parameters, shards.full, rank, options_);
    });
  }
}

TEST_P(PlanBoundTest, ReduceOverEverything) {
  const UnitShards shards = Shards("zero3");
  ExpectAtBound(
      [&](Rank rank) {
        return PlanReduce(topology_, shards.full, shards.reduced, LevelSet::All(2), rank, options_);
      },
      1.015);
}

TEST_P(PlanBoundTest, BoundaryAndPublish) {
  const UnitShards shards = Shards("iig");
  ExpectAtBound([&](Rank rank) {
    return PlanReduce(topology_, shards.gradients, shards.reduced, LevelSet().With(1), rank,
                      options_);
  });
  ExpectAtBound([&](Rank rank) {
    return PlanGather(topology_, shards.optimizer, shards.parameters, rank, options_);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, PlanBoundTest,
                         testing::Values(std::pair(2, 2), std::pair(4, 2), std::pair(2, 4),
                                         std::pair(3, 2), std::pair(5, 1), std::pair(8, 1)),
                         [](const auto& info) {
                           return std::to_string(info.param.first) + "x" +
                                  std::to_string(info.param.second);
                         });

}  // namespace
}  // namespace strata
