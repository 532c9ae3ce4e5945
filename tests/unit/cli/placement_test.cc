#include "cli/placement.h"

#include <set>

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "node.local_rank" per rank.
std::vector<std::string> Places(const std::vector<int>& ranks_of_node, Placement placement) {
  std::vector<std::string> text;
  for (const RankPlace& place : PlaceRanks(ranks_of_node, placement)) {
    EXPECT_EQ(place.rank, static_cast<int>(text.size()));
    text.push_back(std::to_string(place.node) + "." + std::to_string(place.local_rank));
  }
  return text;
}

TEST(PlaceRanks, BlockFillsNodeAfterNode) {
  EXPECT_THAT(Places({1}, Placement::kBlock), ElementsAre("0.0"));
  EXPECT_THAT(Places({2, 2}, Placement::kBlock), ElementsAre("0.0", "0.1", "1.0", "1.1"));
  EXPECT_THAT(Places({1, 3, 2}, Placement::kBlock),
              ElementsAre("0.0", "1.0", "1.1", "1.2", "2.0", "2.1"));
}

TEST(PlaceRanks, RoundRobinDealsOutAndSkipsFullNodes) {
  EXPECT_THAT(Places({1}, Placement::kRoundRobin), ElementsAre("0.0"));
  EXPECT_THAT(Places({2, 2}, Placement::kRoundRobin), ElementsAre("0.0", "1.0", "0.1", "1.1"));
  EXPECT_THAT(Places({1, 3, 2}, Placement::kRoundRobin),
              ElementsAre("0.0", "1.0", "2.0", "1.1", "2.1", "1.2"));
}

TEST(RankEnvironment, NamesWhatTorchrunNames) {
  EXPECT_THAT(
      RankEnvironment({4, 1, 2}, {2, 5}, {"10.0.0.1", 1234, "abc"}),
      ElementsAre("RANK=4", "WORLD_SIZE=7", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=5", "GROUP_RANK=1",
                  "MASTER_ADDR=10.0.0.1", "MASTER_PORT=1234", "STRATA_TOKEN=abc"));
}

TEST(RankEnvironment, LeavesAnEmptyTokenOut) {
  EXPECT_THAT(RankEnvironment({0, 0, 0}, {1}, {"h", 1, ""}),
              testing::Not(testing::Contains(HasSubstr("STRATA_TOKEN"))));
}

TEST(RandomToken, Differs) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(RandomToken());
  EXPECT_EQ(tokens.size(), 100u);
  EXPECT_EQ(tokens.begin()->size(), 32u);
}

TEST(FindProgram, SearchesPathAndNamesWhatIsMissing) {
  const absl::StatusOr<std::string> shell = FindProgram("sh");
  ASSERT_OK(shell);
  EXPECT_THAT(*shell, HasSubstr("/sh"));
  EXPECT_OK(FindProgram("/bin/sh"));
  EXPECT_THAT(FindProgram("no-such-program"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no-such-program")));
  EXPECT_THAT(FindProgram("/bin"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/bin")));
  EXPECT_THAT(FindProgram(""), StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"\"")));
}

}  // namespace
}  // namespace strata
