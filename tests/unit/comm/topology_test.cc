#include "comm/topology.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

TEST(TopologyTest, UniformNumbersPositionsNodeByNode) {
  const Topology topology = Topology::Uniform(3, 2);
  EXPECT_EQ(topology.size(), 6);
  EXPECT_EQ(topology.level_count(), 2);
  EXPECT_EQ(topology.FindLevel("node"), 0);
  EXPECT_EQ(topology.FindLevel("cluster"), 1);
  EXPECT_EQ(topology.FindLevel("rack"), -1);
  EXPECT_EQ(topology.group_count(0), 3);
  EXPECT_EQ(topology.Group(Rank{3}, 0), 1);
  EXPECT_EQ(topology.Group(Rank{3}, 1), 0);
  EXPECT_EQ(topology.ChildIndex(Rank{3}, 0), 1);
  EXPECT_EQ(topology.ChildIndex(Rank{3}, 1), 1);
  EXPECT_EQ(topology.LevelBetween(Rank{2}, Rank{3}), 0);
  EXPECT_EQ(topology.LevelBetween(Rank{1}, Rank{2}), 1);
  EXPECT_EQ(topology.LevelBetween(Rank{4}, Rank{4}), 0);
}

TEST(TopologyTest, OneRankIsATopology) {
  const Topology topology = Topology::Uniform(1, 1);
  EXPECT_EQ(topology.size(), 1);
  EXPECT_EQ(topology.Children(1, 0).size(), 1u);
  EXPECT_EQ(topology.ChildIndex(Rank{0}, 1), 0);
}

TEST(TopologyTest, GroupsOfALevelMayDifferInSize) {
  auto topology =
      Topology::Create({{"node", {2, 3, 1}, {}}, {"rack", {1, 2}, {}}, {"cluster", {2}, {}}});
  ASSERT_OK(topology);
  EXPECT_EQ(topology->size(), 6);
  EXPECT_EQ(topology->Members(0, 1).first, 2);
  EXPECT_EQ(topology->Members(0, 1).count, 3);
  EXPECT_EQ(topology->Members(1, 1).first, 2);
  EXPECT_EQ(topology->Members(1, 1).count, 4);
  ASSERT_EQ(topology->Children(1, 1).size(), 2u);
  EXPECT_EQ(topology->Children(1, 1)[1].first, 5);
  EXPECT_EQ(topology->ChildIndex(Rank{5}, 0), 0);
  EXPECT_EQ(topology->ChildIndex(Rank{5}, 1), 1);
  EXPECT_EQ(topology->ChildIndex(Rank{5}, 2), 1);
  EXPECT_EQ(topology->LevelBetween(Rank{1}, Rank{2}), 2);
  EXPECT_EQ(topology->LevelBetween(Rank{4}, Rank{5}), 1);
}

TEST(TopologyTest, OneLevelIsATopology) {
  auto topology = Topology::Create({{"node", {5}, {}}});
  ASSERT_OK(topology);
  EXPECT_EQ(topology->size(), 5);
  EXPECT_EQ(topology->Children(0, 0).size(), 5u);
}

TEST(TopologyTest, RefusesWhatIsNoHierarchyAndSaysWhy) {
  const auto refused = [](std::vector<Level> levels, const char* why) {
    EXPECT_THAT(Topology::Create(std::move(levels)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({}, "1 to 16 levels, not 0");
  refused({{"", {1}, {}}}, "level 0 has no name");
  refused({{"node", {}, {}}}, "level \"node\" has no group");
  refused({{"node", {2, 0}, {}}, {"cluster", {2}, {}}}, "group 1 of level \"node\" has 0 members");
  refused({{"node", {2, 2}, {}}, {"cluster", {3}, {}}},
          "made of 3 groups, but level \"node\" has 2");
  refused({{"node", {2, 2}, {}}}, "outermost level \"node\" has 2 groups");
  refused({{"node", {2}, {}}, {"node", {1}, {}}}, "both named \"node\"");
}

}  // namespace
}  // namespace strata
