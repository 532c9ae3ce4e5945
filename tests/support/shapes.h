#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "comm/layout.h"
#include "comm/shard_layout.h"
#include "comm/topology.h"
#include "tests/support/set_oracle.h"

namespace strata {

// A topology whose level l joins sizes[l] groups of the next inner level.
inline Topology EqualGroups(const std::vector<int>& sizes) {
  std::vector<Level> levels;
  int groups = 1;
  for (size_t l = sizes.size(); l-- > 0;) {
    levels.insert(levels.begin(),
                  {"level" + std::to_string(l), std::vector<int>(groups, sizes[l]), {}});
    groups *= sizes[l];
  }
  return *Topology::Create(levels);
}

// Nodes with these numbers of ranks, in one cluster.
inline Topology Nodes(const std::vector<int>& ranks) {
  return *Topology::Create(
      {{"node", ranks, {}}, {"cluster", {static_cast<int>(ranks.size())}, {}}});
}

inline std::vector<Layout> LegalLayouts(int level_count) {
  std::vector<Layout> legal;
  for (uint32_t o = 0; o < 1u << level_count; ++o) {
    for (uint32_t p = 0; p <= o; ++p) {
      for (uint32_t g = 0; g <= o; ++g) {
        if ((p & ~o) == 0 && (g & ~o) == 0) {
          legal.push_back({"custom", LevelSet(p), LevelSet(g), LevelSet(o)});
        }
      }
    }
  }
  return legal;
}

// What a ShardLayout says that each rank holds, as the oracle's sets.
inline BlockSets SetsOf(const ShardLayout& state, int ranks) {
  const int64_t blocks = (state.elements() + 255) / 256;
  BlockSets sets(ranks, std::vector<bool>(blocks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (const ElementRange& range : state.Owned(Rank{rank})) {
      for (int64_t b = range.begin / 256; b * 256 < range.end; ++b) sets[rank][b] = true;
    }
  }
  return sets;
}

inline std::vector<int> RanksOf(RankSpan span) {
  std::vector<int> ranks;
  for (int rank = span.first; rank < span.first + span.count; ++rank) ranks.push_back(rank);
  return ranks;
}

inline uint32_t Bits(LevelSet set) {
  uint32_t bits = 0;
  for (int level = 0; level < 32; ++level) bits |= static_cast<uint32_t>(set.Has(level)) << level;
  return bits;
}

// One topology that plans are tested on.
struct ShapeCase {
  std::string name;
  Topology topology;
  std::vector<int> sizes;  // innermost first; empty where groups differ in size

  friend void PrintTo(const ShapeCase& shape, std::ostream* out) { *out << shape.name; }
};

// Sizes of 1, odd sizes, powers of two, three levels, groups of unequal size.
inline std::vector<ShapeCase> ShapeCases() {
  std::vector<ShapeCase> cases;
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{1, 1},
                                                                     {4, 1},
                                                                     {1, 4},
                                                                     {2, 2},
                                                                     {3, 2},
                                                                     {2, 3},
                                                                     {4, 2},
                                                                     {2, 4},
                                                                     {1, 5},
                                                                     {1, 8},
                                                                     {2, 2, 2}}) {
    std::string name = "sizes";
    for (int size : sizes) name += "_" + std::to_string(size);
    cases.push_back({name, EqualGroups(sizes), sizes});
  }
  cases.push_back({"nodes_2_3", Nodes({2, 3}), {}});
  cases.push_back({"nodes_1_4_2", Nodes({1, 4, 2}), {}});
  cases.push_back({"nodes_3_1_2_2", Nodes({3, 1, 2, 2}), {}});
  cases.push_back(
      {"uneven_pairs",
       *Topology::Create({{"pair", {2, 1, 2}, {}}, {"node", {2, 1}, {}}, {"cluster", {2}, {}}}),
       {}});
  return cases;
}

}  // namespace strata
