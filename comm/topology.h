#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/types.h"

namespace strata {

// What one direction of the connection of one child group to the others of its level can do.
struct Link {
  int64_t bytes_per_second = 0;  // 0: not known
  absl::Duration latency = absl::ZeroDuration();
};

// One tier of the hierarchy. `children[k]` is how many groups of the next inner level (ranks, for
// the innermost level) form group k. Groups of a level may differ in size.
struct Level {
  std::string name;  // "pair", "node", "rack", "cluster"
  std::vector<int> children;
  Link link;
};

// A run of consecutive positions.
struct RankSpan {
  int first = 0;
  int count = 0;
  bool Contains(Rank rank) const { return Index(rank) >= first && Index(rank) < first + count; }
};

// Ranks nested in groups, innermost level first. Pure data: positions are numbered in canonical
// order, so that each group is a run of consecutive positions. Immutable.
class Topology {
 public:
  // InvalidArgument unless every level has at least one group, none is empty, level names are
  // distinct, counts of adjacent levels agree and the last level has exactly one group.
  static absl::StatusOr<Topology> Create(std::vector<Level> levels);

  // `nodes` x `ranks_per_node` with the levels "node" and "cluster". Sizes of at least 1.
  static Topology Uniform(int nodes, int ranks_per_node);

  int size() const { return size_; }
  std::span<const Level> levels() const { return levels_; }
  int level_count() const { return static_cast<int>(levels_.size()); }

  // -1 if there is no such level.
  int FindLevel(absl::string_view name) const;

  int group_count(int level) const { return static_cast<int>(groups_[level].size()); }
  int Group(Rank rank, int level) const { return group_of_[level][Index(rank)]; }
  RankSpan Members(int level, int group) const { return groups_[level][group]; }

  // Child groups of a group, as runs of positions. For level 0 each child is one rank.
  std::span<const RankSpan> Children(int level, int group) const;
  // Which child of its level-`level` group holds `rank`, from 0.
  int ChildIndex(Rank rank, int level) const;

  // The innermost level at which a and b are in one group; 0 when a == b.
  int LevelBetween(Rank a, Rank b) const;

 private:
  std::vector<Level> levels_;
  int size_ = 0;
  std::vector<std::vector<RankSpan>> groups_;                 // [level][group]
  std::vector<std::vector<std::vector<RankSpan>>> children_;  // [level][group][child]
  std::vector<std::vector<int>> group_of_;                    // [level][rank]
};

}  // namespace strata
