#include "comm/numbering.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using testing::ElementsAre;

TEST(NumberingTest, NodesByLowestLauncherRank) {
  // Neither the nodes' names nor the order within them follows the order of launcher ranks.
  const Numbering n = NumberRanks({"z", "b", "b", "z", "a", "b", "z"});
  EXPECT_THAT(n.node_sizes, ElementsAre(3, 3, 1));
  EXPECT_THAT(n.launcher, ElementsAre(0, 3, 6, 1, 2, 5, 4));
  EXPECT_THAT(n.position, ElementsAre(0, 3, 4, 1, 6, 5, 2));
}

TEST(NumberingTest, BlockPlacementKeepsLauncherRanks) {
  const Numbering n = NumberRanks({"x", "x", "y", "y", "y"});
  EXPECT_THAT(n.node_sizes, ElementsAre(2, 3));
  EXPECT_THAT(n.launcher, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(n.position, ElementsAre(0, 1, 2, 3, 4));
}

TEST(NumberingTest, OneRank) {
  const Numbering n = NumberRanks({"x"});
  EXPECT_THAT(n.node_sizes, ElementsAre(1));
  EXPECT_THAT(n.launcher, ElementsAre(0));
}

}  // namespace
}  // namespace strata
