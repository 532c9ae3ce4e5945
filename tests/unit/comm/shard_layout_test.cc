#include "comm/shard_layout.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/support/set_oracle.h"
#include "tests/support/shapes.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr int64_t kSizes[] = {0, 1, 255, 256, 257, 2560, 100003};

bool Holds(const ShardLayout& layout, int rank, int64_t element) {
  for (const ElementRange& range : layout.Owned(Rank{rank})) {
    if (range.begin <= element && element < range.end) return true;
  }
  return false;
}

// Every rank's ranges are well formed and packed in order.
void ExpectWellFormed(const ShardLayout& layout, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t end = -1, packed = 0;
    for (const ElementRange& range : layout.Owned(Rank{rank})) {
      ASSERT_GT(range.begin, end);
      ASSERT_GT(range.size(), 0);
      ASSERT_EQ(range.begin % kBlockElements, 0);
      ASSERT_TRUE(range.end % kBlockElements == 0 || range.end == layout.elements());
      ASSERT_EQ(layout.PackedOffset(Rank{rank}, range.begin), packed);
      ASSERT_EQ(layout.PackedOffset(Rank{rank}, range.end - 1), packed + range.size() - 1);
      ASSERT_EQ(layout.PackedOffset(Rank{rank}, range.end), -1);
      end = range.end;
      packed += range.size();
    }
    ASSERT_EQ(layout.OwnedElements(Rank{rank}), packed);
  }
}

TEST(ShardLayoutTest, EqualGroupsHoldWhatTheSetsSay) {
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{
           {1, 1}, {4, 1}, {1, 4}, {2, 2}, {3, 2}, {2, 3}, {1, 5}, {2, 2, 2}}) {
    const Topology topology = EqualGroups(sizes);
    for (const Layout& l : LegalLayouts(topology.level_count())) {
      const std::vector<int> order = CutOrder(l, topology.level_count());
      for (LevelSet sharded : {l.parameters, l.gradients, l.optimizer}) {
        for (int64_t elements : kSizes) {
          auto layout = ShardLayout::Create(topology, elements, order, sharded);
          ASSERT_OK(layout);
          ExpectWellFormed(*layout, topology.size());
          const BlockSets sets = EqualGroupSets(sizes, order, Bits(sharded), elements);
          for (int rank = 0; rank < topology.size(); ++rank) {
            for (int64_t block = 0; block * kBlockElements < elements; ++block) {
              ASSERT_EQ(Holds(*layout, rank, block * kBlockElements), sets[rank][block])
                  << "rank " << rank << " block " << block << " of " << elements;
            }
          }
        }
      }
    }
  }
}

bool Contains(const ShardLayout& outer, const ShardLayout& inner, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (const ElementRange& range : inner.Owned(Rank{rank})) {
      const int64_t first = outer.PackedOffset(Rank{rank}, range.begin);
      const int64_t last = outer.PackedOffset(Rank{rank}, range.end - 1);
      if (first < 0 || last - first != range.size() - 1) return false;
    }
  }
  return true;
}

TEST(ShardLayoutTest, ShardsOfUnequalGroupsNestAndCover) {
  const Topology topologies[] = {
      *Topology::Create({{"node", {2, 3}, {}}, {"cluster", {2}, {}}}),
      *Topology::Create({{"node", {1, 4, 2}, {}}, {"cluster", {3}, {}}}),
      *Topology::Create({{"pair", {2, 1, 3, 2}, {}}, {"node", {1, 3}, {}}, {"cluster", {2}, {}}})};
  for (const Topology& topology : topologies) {
    for (const Layout& layout : LegalLayouts(topology.level_count())) {
      for (int64_t elements : kSizes) {
        auto shards = MakeUnitShards(topology, layout, elements);
        ASSERT_OK(shards);
        const int ranks = topology.size();
        for (const ShardLayout* state : {&shards->full, &shards->parameters, &shards->gradients,
                                         &shards->optimizer, &shards->reduced}) {
          ExpectWellFormed(*state, ranks);
          for (int64_t e = 0; e < elements; e += kBlockElements) {
            ASSERT_FALSE(state->Holders({e, std::min(e + kBlockElements, elements)}).empty());
          }
        }
        EXPECT_TRUE(Contains(shards->parameters, shards->optimizer, ranks));
        EXPECT_TRUE(Contains(shards->gradients, shards->optimizer, ranks));
        EXPECT_TRUE(Contains(shards->optimizer, shards->reduced, ranks));
        int64_t reduced = 0;
        for (int r = 0; r < ranks; ++r) reduced += shards->reduced.OwnedElements(Rank{r});
        EXPECT_EQ(reduced, elements);
      }
    }
  }
}

TEST(ShardLayoutTest, EachGroupOfAShardedLevelHoldsEverythingOnce) {
  auto topology = Topology::Create({{"node", {2, 3}, {}}, {"cluster", {2}, {}}});
  ASSERT_OK(topology);
  const int order[] = {0, 1};
  auto layout = ShardLayout::Create(*topology, 100003, order, LevelSet().With(0));
  ASSERT_OK(layout);
  for (int64_t e = 0; e < 100003; e += kBlockElements) {
    const std::vector<Rank> holders = layout->Holders({e, e + 1});
    ASSERT_EQ(holders.size(), 2u);
    EXPECT_LT(Index(holders[0]), 2);
    EXPECT_GE(Index(holders[1]), 2);
  }
}

TEST(ShardLayoutTest, ShardsAreInProportionToTheRanksInAGroup) {
  auto topology = Topology::Create({{"node", {1, 4}, {}}, {"cluster", {2}, {}}});
  ASSERT_OK(topology);
  const int outer_first[] = {1, 0};
  auto layout = ShardLayout::Create(*topology, 500 * kBlockElements, outer_first, LevelSet::All(2));
  ASSERT_OK(layout);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(layout->OwnedElements(Rank{rank}), 100 * kBlockElements);
  }
}

TEST(ShardLayoutTest, AnOuterLevelCutFirstMakesStridedShards) {
  const Topology topology = Topology::Uniform(2, 2);
  const int order[] = {1, 0};
  auto layout = ShardLayout::Create(topology, 8 * kBlockElements, order, LevelSet().With(0));
  ASSERT_OK(layout);
  ASSERT_EQ(layout->Owned(Rank{1}).size(), 2u);
  EXPECT_EQ(layout->Owned(Rank{1})[0], (ElementRange{2 * kBlockElements, 4 * kBlockElements}));
  EXPECT_EQ(layout->Owned(Rank{1})[1], (ElementRange{6 * kBlockElements, 8 * kBlockElements}));
  EXPECT_EQ(layout->PackedOffset(Rank{1}, 7 * kBlockElements), 3 * kBlockElements);
  EXPECT_EQ(layout->PackedOffset(Rank{1}, 4 * kBlockElements), -1);
  EXPECT_TRUE(layout->Holders({3 * kBlockElements, 5 * kBlockElements}).empty());
}

TEST(ShardLayoutTest, RefusesABadOrder) {
  const Topology topology = Topology::Uniform(2, 2);
  const int twice[] = {0, 0}, short_order[] = {0}, both[] = {0, 1};
  for (auto result : {ShardLayout::Create(topology, 1, twice, {}),
                      ShardLayout::Create(topology, 1, short_order, {}),
                      ShardLayout::Create(topology, -1, both, {}),
                      ShardLayout::Create(topology, 1, both, LevelSet(0b100))}) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace strata
