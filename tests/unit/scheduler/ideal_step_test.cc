#include "scheduler/ideal_step.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr int kNode = 0, kCluster = 1;
const LevelSet kNone, kInner{0b01}, kOuter{0b10}, kBoth{0b11};

const Layout kDdp{"ddp", kNone, kNone, kNone};
const Layout kZero1{"zero1", kNone, kNone, kBoth};
const Layout kZero2{"zero2", kNone, kBoth, kBoth};
const Layout kZero3{"zero3", kBoth, kBoth, kBoth};
const Layout kHsdp{"hsdp", kInner, kInner, kInner};
const Layout kIig{"iig", kInner, kInner, kBoth};
const Layout kAcross{"across", kOuter, kInner, kBoth};

// Two nodes with a link such that the parameters (1000 bytes, as the gradients) take `traffic`
// twice half: (d-1)/d of 2M in one second.
Topology TwoNodes(int64_t cluster_rate, int64_t node_rate) {
  return *Topology::Create(
      {Level{"node", {2, 2}, {node_rate}}, Level{"cluster", {2}, {cluster_rate}}});
}

// Compute of the whole step is one second, forward : backward = 1 : 2.
StepShape Shape(const Layout& layout, int accumulation) {
  return {.layout = layout,
          .accumulation = accumulation,
          .forward = absl::Seconds(1) / (3 * accumulation),
          .backward = absl::Seconds(2) / (3 * accumulation),
          .parameter_bytes = 1000,
          .gradient_bytes = 1000};
}

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

TEST(StepBytesTest, BetweenNodesPerPreset) {
  // In units of (d-1)/d: 2M, 2M, (A+1)M, 3AM, 2M, 2M, (2A+1)M.
  for (const int accumulation : {1, 4, 7}) {
    const double m = 1000 * 2.0 / 3;  // three nodes
    const auto bytes = [&](const Layout& layout) {
      return StepBytes(Shape(layout, accumulation), kCluster, 3);
    };
    EXPECT_DOUBLE_EQ(bytes(kDdp), 2 * m);
    EXPECT_DOUBLE_EQ(bytes(kZero1), 2 * m);
    EXPECT_DOUBLE_EQ(bytes(kZero2), (accumulation + 1) * m);
    EXPECT_DOUBLE_EQ(bytes(kZero3), 3 * accumulation * m);
    EXPECT_DOUBLE_EQ(bytes(kHsdp), 2 * m);
    EXPECT_DOUBLE_EQ(bytes(kIig), 2 * m);
    EXPECT_DOUBLE_EQ(bytes(kAcross), (2 * accumulation + 1) * m);
  }
}

TEST(StepBytesTest, ParametersAndGradientsHaveTheirOwnTypes) {
  StepShape shape = Shape(kZero3, 2);
  shape.parameter_bytes = 500;
  EXPECT_DOUBLE_EQ(StepBytes(shape, kCluster, 2), 0.5 * (2 * 2 * 500 + 2 * 1000));
}

TEST(StepBytesTest, OneGroupSendsNothing) {
  EXPECT_EQ(StepBytes(Shape(kZero3, 3), kCluster, 1), 0);
}

TEST(IdealStepTest, HierarchicalWithComputeEqualToTraffic) {
  // Publish and reduce take 0.5 s each. A = 1: max(1/3, 1/2) + max(2/3, 1/2) = 7/6.
  const Topology topology = TwoNodes(1000, 0);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kIig, 1), topology)), 7.0 / 6, 1e-9);
  // A = 4: 1/2 + 3/4 + 1/2.
  EXPECT_NEAR(Seconds(IdealStep(Shape(kIig, 4), topology)), 1.75, 1e-9);
  // Replicated over nodes: an all-reduce of 1 s behind the last backward.
  EXPECT_NEAR(Seconds(IdealStep(Shape(kHsdp, 1), topology)), 1.0 / 3 + 1, 1e-9);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kHsdp, 4), topology)), 1.0 / 12 + 3.0 / 4 + 1, 1e-9);
}

TEST(IdealStepTest, FlatCountsTheSumOfItsBytes) {
  const Topology topology = TwoNodes(1000, 0);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero3, 1), topology)), 1.5, 1e-9);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero3, 4), topology)), 6, 1e-9);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero3, 4), TwoNodes(1000000, 0))), 1, 1e-9);
}

TEST(IdealStepTest, OnlyGradientsSharded) {
  // Each backward has 0.5 s of reduce, the first forward 0.5 s of publish.
  const Topology topology = TwoNodes(1000, 0);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero2, 1), topology)), 0.5 + 2.0 / 3, 1e-9);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero2, 4), topology)), 0.5 + 3 * (0.5 + 1.0 / 12) + 0.5,
              1e-9);
}

TEST(IdealStepTest, SlowestLevelCounts) {
  // hsdp at the node: 3 A M / 2 bytes at 100 B/s are 15 s; at the cluster it is far less.
  EXPECT_NEAR(Seconds(IdealStep(Shape(kHsdp, 1), TwoNodes(1000, 100))), 15, 1e-9);
}

TEST(IdealStepTest, UnknownRatesAndSingleGroupsCostNothing) {
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero3, 3), TwoNodes(0, 0))), 1, 1e-9);
  auto one = Topology::Create({Level{"node", {1}, {1}}, Level{"cluster", {1}, {1}}});
  ASSERT_OK(one);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero3, 3), *one)), 1, 1e-9);
}

TEST(IdealStepTest, UnequalGroupsCountTheLargest) {
  // Nodes of 1, 3 and 2 ranks: at the node level 2/3 of 3M at 1000 B/s.
  auto topology = Topology::Create({Level{"node", {1, 3, 2}, {1000}}, Level{"cluster", {3}, {0}}});
  ASSERT_OK(topology);
  EXPECT_NEAR(Seconds(IdealStep(Shape(kZero3, 1), *topology)), 2, 1e-9);
}

}  // namespace
}  // namespace strata
