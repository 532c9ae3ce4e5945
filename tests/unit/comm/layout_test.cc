#include "comm/layout.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr LevelSet kNone;
constexpr LevelSet kNode = LevelSet().With(0);
constexpr LevelSet kCluster = LevelSet().With(1);
constexpr LevelSet kBoth = LevelSet::All(2);

Topology ThreeLevels() {
  return *Topology::Create(
      {{"pair", std::vector<int>(4, 2), {}}, {"node", {2, 2}, {}}, {"cluster", {2}, {}}});
}

TEST(LayoutTest, PresetsAreTheRowsOfTheTable) {
  const Topology topology = Topology::Uniform(2, 2);
  const auto expect = [&](const char* name, LevelSet p, LevelSet g, LevelSet o) {
    auto layout = ParseLayout(name, topology);
    ASSERT_OK(layout);
    EXPECT_EQ(layout->name, name);
    EXPECT_EQ(layout->parameters, p) << name;
    EXPECT_EQ(layout->gradients, g) << name;
    EXPECT_EQ(layout->optimizer, o) << name;
    EXPECT_OK(CheckLayout(*layout, topology));
  };
  expect("ddp", kNone, kNone, kNone);
  expect("zero1", kNone, kNone, kBoth);
  expect("zero2", kNone, kBoth, kBoth);
  expect("zero3", kBoth, kBoth, kBoth);
  expect("hsdp", kNode, kNode, kNode);
  expect("iig", kNode, kNode, kBoth);
  expect("igg", kNode, kBoth, kBoth);
  expect("nig", kNone, kNode, kBoth);
  expect("across", kCluster, kNode, kBoth);
}

TEST(LayoutTest, PresetsWorkOnEveryShapeOfTwoLevels) {
  for (const std::string& name : LayoutPresets()) {
    if (name == "topo") continue;
    EXPECT_OK(ParseLayout(name, Topology::Uniform(1, 1)));
    EXPECT_OK(ParseLayout(name, Topology::Uniform(5, 1)));
  }
}

TEST(LayoutTest, TopoNeedsPairs) {
  EXPECT_THAT(ParseLayout("topo", Topology::Uniform(2, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layout \"topo\": the topology has no level \"pair\"; it has: "
                                 "node, cluster")));
  auto layout = ParseLayout("topo", ThreeLevels());
  ASSERT_OK(layout);
  EXPECT_EQ(layout->parameters, LevelSet(0b001));
  EXPECT_EQ(layout->gradients, LevelSet(0b011));
  EXPECT_EQ(layout->optimizer, LevelSet(0b111));
}

TEST(LayoutTest, NodeMeansAllLevelsInsideTheNode) {
  auto layout = ParseLayout("iig", ThreeLevels());
  ASSERT_OK(layout);
  EXPECT_EQ(layout->parameters, LevelSet(0b011));
  EXPECT_EQ(layout->optimizer, LevelSet(0b111));
}

TEST(LayoutTest, AMistypedPresetGetsASuggestion) {
  const Topology topology = Topology::Uniform(2, 2);
  EXPECT_THAT(ParseLayout("zer03", topology),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean \"zero3\"?")));
  EXPECT_THAT(ParseLayout("acros", topology),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean \"across\"?")));
  EXPECT_THAT(ParseLayout("", topology),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Layouts: ddp, zero1,")));
}

TEST(LayoutTest, APresetNeedsItsLevels) {
  auto node_only = Topology::Create({{"node", {3}, {}}});
  ASSERT_OK(node_only);
  EXPECT_OK(ParseLayout("hsdp", *node_only));
  EXPECT_THAT(ParseLayout("zero3", *node_only),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no level \"cluster\"")));
}

TEST(LayoutTest, IllegalLayoutsNameTheRuleAndWhatToChange) {
  const Topology topology = Topology::Uniform(2, 2);
  EXPECT_THAT(MakeLayout({"cluster"}, {}, {"node"}, topology),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("parameters are sharded over level \"cluster\""),
                             HasSubstr("add \"cluster\" to optimizer"))));
  EXPECT_THAT(MakeLayout({}, {"node"}, {}, topology),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("gradients are sharded over level \"node\"")));
  EXPECT_THAT(MakeLayout({}, {"rack"}, {}, topology),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layout of gradients: the topology has no level \"rack\"")));
  EXPECT_THAT(CheckLayout({"x", kNone, kNone, LevelSet(0b100)}, topology),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lacks")));
}

TEST(LayoutTest, FiveLegalChoicesPerLevel) {
  const Topology topology = Topology::Uniform(2, 2);
  int legal = 0;
  for (uint32_t bits = 0; bits < 64; ++bits) {
    const Layout layout{"x", LevelSet(bits & 3), LevelSet(bits >> 2 & 3), LevelSet(bits >> 4)};
    legal += CheckLayout(layout, topology).ok();
  }
  EXPECT_EQ(legal, 25);
}

TEST(LayoutTest, CutOrderPutsParametersFirst) {
  EXPECT_THAT(CutOrder({"", kNone, kNone, kNone}, 2), ElementsAre(0, 1));
  EXPECT_THAT(CutOrder({"", kCluster, kNode, kBoth}, 2), ElementsAre(1, 0));
  EXPECT_THAT(CutOrder({"", kNone, kCluster, kBoth}, 2), ElementsAre(1, 0));
  EXPECT_THAT(CutOrder({"", LevelSet(0b100), LevelSet(0b001), LevelSet(0b111)}, 3),
              ElementsAre(2, 0, 1));
}

}  // namespace
}  // namespace strata
