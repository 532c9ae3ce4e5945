#include "comm/plan.h"

#include <functional>

#include "gtest/gtest.h"
#include "tests/support/shapes.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr Slice kIn{BufferId::kInput, 0, 8};
constexpr Slice kOut{BufferId::kOutput, 0, 8};
constexpr Slice kScratch{BufferId::kScratch, 0, 8};

// Rank 0 sends its 8 bytes to rank 1, which adds its own.
std::vector<Plan> SendAndAdd() {
  Plan sender{.name = "reduce", .input_bytes = 8};
  sender.steps = {{.op = Op::kSend, .level = 1, .peer = Rank{1}, .message = 3, .src = kIn}};
  Plan adder{.name = "reduce", .input_bytes = 8, .output_bytes = 8, .scratch_bytes = 8};
  adder.steps = {
      {.op = Op::kRecv, .level = 1, .peer = Rank{0}, .message = 3, .dst = kScratch},
      {.op = Op::kReduce, .src = kScratch, .other = kIn, .dst = kOut, .dependency_count = 1}};
  adder.dependencies = {0};
  return {sender, adder};
}

TEST(ValidateTest, AcceptsWhatFitsTogether) { EXPECT_OK(Validate(SendAndAdd())); }

TEST(ValidateTest, RefusesEachWayNotToFit) {
  const auto refused = [](const char* why, const std::function<void(std::vector<Plan>&)>& spoil) {
    std::vector<Plan> plans = SendAndAdd();
    spoil(plans);
    EXPECT_THAT(Validate(plans), StatusIs(absl::StatusCode::kInternal, HasSubstr(why)));
  };
  using Plans = std::vector<Plan>;
  refused("rank 0 step 0 (send): message 4 with rank 1 has no one matching step",
          [](Plans& p) { p[0].steps[0].message = 4; });
  refused("rank 1 step 0 (recv): message 3", [](Plans& p) { p[0].steps.clear(); });
  refused("has no one matching step", [](Plans& p) { p[0].steps.push_back(p[0].steps[0]); });
  refused("4 bytes on level 1, received as 8", [](Plans& p) { p[0].steps[0].src.bytes = 4; });
  refused("on level 0, received as", [](Plans& p) { p[0].steps[0].level = 0; });
  refused("peer 2", [](Plans& p) { p[0].steps[0].peer = Rank{2}; });
  refused("peer 0", [](Plans& p) { p[0].steps[0].peer = Rank{0}; });
  refused("bytes 4 to 12 of 8 bytes of input", [](Plans& p) { p[0].steps[0].src.offset = 4; });
  refused("of 4 bytes of scratch", [](Plans& p) { p[1].scratch_bytes = 4; });
  refused("writes the input", [](Plans& p) { p[1].steps[1].dst = kIn; });
  refused("adds 4 bytes to 8", [](Plans& p) { p[1].steps[1].other.bytes = 4; });
  refused("output bytes 8 to 16 are written never", [](Plans& p) { p[1].output_bytes = 16; });
  refused("output bytes 0 to 8 are written twice",
          [](Plans& p) { p[1].steps.push_back({.op = Op::kCopy, .src = kIn, .dst = kOut}); });
  refused("depends on step 1", [](Plans& p) { p[1].dependencies = {1}; });
}

TEST(ValidateTest, FindsACycleThroughTwoRanks) {
  // Each sends on what it gets from the other.
  const auto pass_on = [](Rank peer) {
    Plan plan{.name = "gather", .output_bytes = 8};
    plan.steps = {{.op = Op::kRecv, .peer = peer, .dst = kOut},
                  {.op = Op::kSend, .peer = peer, .src = kOut, .dependency_count = 1}};
    plan.dependencies = {0};
    return plan;
  };
  EXPECT_THAT(Validate(std::vector<Plan>{pass_on(Rank{1}), pass_on(Rank{0})}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("4 steps wait for each other")));
}

TEST(CountWireBytesTest, CountsOneLevelBothWays) {
  const std::vector<Plan> plans = SendAndAdd();
  EXPECT_EQ(CountWireBytes(plans[0], 1).sent, 8);
  EXPECT_EQ(CountWireBytes(plans[0], 1).received, 0);
  EXPECT_EQ(CountWireBytes(plans[1], 1).received, 8);
  EXPECT_EQ(CountWireBytes(plans[1], 0).received, 0);
}

TEST(EstimateTest, TheSlowestLevelOfTheBusiestGroupCounts) {
  // 2 x 2 ranks, 4000 bytes: a node receives 2000 from the other, a rank 2000 from its neighbour.
  const auto estimate = [](Link node, Link cluster) {
    const Topology topology =
        *Topology::Create({{"node", {2, 2}, node}, {"cluster", {2}, cluster}});
    const UnitShards shards =
        *MakeUnitShards(topology, *ParseLayout("zero3", topology), 4 * kBlockElements);
    std::vector<Plan> plans;
    for (int rank = 0; rank < 4; ++rank) {
      plans.push_back(*PlanGather(topology, shards.parameters, shards.full, Rank{rank}, {}));
    }
    return Estimate(plans, topology);
  };
  constexpr int64_t kHalf = 2 * kBlockElements * 4;
  const absl::Duration latency = absl::Microseconds(50);
  EXPECT_EQ(estimate({}, {kHalf, latency}), absl::Seconds(1) + latency);
  EXPECT_EQ(estimate({kHalf / 4, {}}, {kHalf, latency}), absl::Seconds(4));
  EXPECT_EQ(estimate({}, {}), absl::ZeroDuration());
}

// What a step of a preset moves between nodes, against the table in docs/layouts.md.
struct StepBytes {
  const char* preset;
  int a_times, fixed;  // (a_times * A + fixed) * M
};

class StepBytesTest : public testing::TestWithParam<StepBytes> {};

TEST_P(StepBytesTest, EqualTheTable) {
  for (const auto& [nodes, ranks] : {std::pair(2, 2), std::pair(4, 2), std::pair(3, 2)}) {
    const Topology topology = Topology::Uniform(nodes, ranks);
    const Layout layout = *ParseLayout(GetParam().preset, topology);
    const int64_t elements = 4 * kBlockElements * nodes * ranks;
    const UnitShards s = *MakeUnitShards(topology, layout, elements);
    const LevelSet rest = LevelSet::All(2).Without(layout.gradients);
    int64_t per_micro_step = 0, per_step = 0;  // sent by node 0
    for (int r = 0; r < ranks; ++r) {
      const Rank rank{r};
      const auto sent = [](const absl::StatusOr<Plan>& plan) {
        return CountWireBytes(*plan, 1).sent;
      };
      per_micro_step += 2 * sent(PlanGather(topology, s.parameters, s.full, rank, {})) +
                        sent(PlanReduce(topology, s.full, s.gradients, layout.gradients, rank, {}));
      per_step += sent(PlanReduce(topology, s.gradients, s.reduced, rest, rank, {})) +
                  sent(PlanGather(topology, s.reduced, s.optimizer, rank, {})) +
                  sent(PlanGather(topology, s.optimizer, s.parameters, rank, {}));
    }
    const int64_t unit = elements * 4 * (nodes - 1) / nodes;
    EXPECT_EQ(per_micro_step, GetParam().a_times * unit);
    EXPECT_EQ(per_step, GetParam().fixed * unit);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, StepBytesTest,
                         testing::Values(StepBytes{"ddp", 0, 2}, StepBytes{"zero1", 0, 2},
                                         StepBytes{"zero2", 1, 1}, StepBytes{"zero3", 3, 0},
                                         StepBytes{"hsdp", 0, 2}, StepBytes{"iig", 0, 2},
                                         StepBytes{"igg", 1, 1}, StepBytes{"nig", 0, 2},
                                         StepBytes{"across", 2, 1}),
                         [](const auto& info) { return std::string(info.param.preset); });

}  // namespace
}  // namespace strata
