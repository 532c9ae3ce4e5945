#include "comm/reduce_tree.h"

#include <algorithm>

#include "kernels/status.h"

namespace strata {
namespace {

bool PowerOfTwo(int value) { return (value & (value - 1)) == 0; }

// Whether `rank` is added for the destination rather than for another in the destination's group,
// at the levels where groups keep to themselves.
bool Counts(const Topology& topology, const ReduceJob& job, Rank rank) {
  for (int level = 0; level < topology.level_count(); ++level) {
    if (job.over.Has(level) || job.sharded.Has(level)) continue;
    const auto size = [&](Rank r) {
      return static_cast<int>(topology.Children(level, topology.Group(r, level)).size());
    };
    const int scaled = topology.ChildIndex(rank, level) * size(job.destination) / size(rank);
    if (scaled != topology.ChildIndex(job.destination, level)) return false;
  }
  return true;
}

class TreeMaker {
 public:
  TreeMaker(const Topology& topology, const ReduceJob& job) : topology_(topology) {
    for (Rank rank : job.holders) {
      if (Counts(topology, job, rank)) leaves_.push_back(rank);
    }
  }

  // The value of a group with at least one leaf, to come to be at `target`, one of its leaves.
  int Value(int level, int group, Rank target) {
    std::vector<int> values;  // of the children that have one
    int own = 0;              // which of them has the target
    const auto children = topology_.Children(level, group);
    const RankSpan& home = children[topology_.ChildIndex(target, level)];
    for (const RankSpan& child : children) {
      if (LeavesIn(child).empty()) continue;
      if (child.first == home.first) own = static_cast<int>(values.size());
      const Rank at = Landing(target, home, child);
      values.push_back(level == 0 ? Leaf(at)
                                  : Value(level - 1, topology_.Group(at, level - 1), at));
    }
    const int count = static_cast<int>(values.size());
    const bool doubling = level > 0 && count > 2 && PowerOfTwo(count);
    return Sum(values, 0, count, own, doubling);
  }

  ReduceTree Take() { return std::move(tree_); }

 private:
  std::span<const Rank> LeavesIn(const RankSpan& span) const {
    const auto first = std::lower_bound(leaves_.begin(), leaves_.end(), Rank{span.first});
    const auto end = std::lower_bound(first, leaves_.end(), Rank{span.first + span.count});
    return {first, end};
  }

  // The leaf of `child` that matches `target`, which is a leaf of `home`.
  Rank Landing(Rank target, const RankSpan& home, const RankSpan& child) const {
    if (child.Contains(target)) return target;
    const auto own = LeavesIn(home), there = LeavesIn(child);
    const size_t index = std::lower_bound(own.begin(), own.end(), target) - own.begin();
    return there[index * there.size() / own.size()];
  }

  int Leaf(Rank rank) {
    tree_.push_back({.at = rank});
    return static_cast<int>(tree_.size()) - 1;
  }

  // The sum of values [first, first + count). `own` is the target's among all values.
  int Sum(std::span<const int> values, int first, int count, int own, bool doubling) {
    if (count == 1) return values[first];
    const int half = (count + 1) / 2;
    const int left = Sum(values, first, half, own, doubling);
    const int right = Sum(values, first + half, count - half, own, doubling);
    const Rank at = tree_[values[doubling ? first + own % count : own]].at;
    const int sum = static_cast<int>(tree_.size());
    tree_.push_back({.left = left, .right = right, .at = at});
    tree_[left].parent = tree_[right].parent = sum;
    return sum;
  }

  const Topology& topology_;
  std::vector<Rank> leaves_;
  ReduceTree tree_;
};

}  // namespace

ReduceTree MakeReduceTree(const Topology& topology, const ReduceJob& job) {
  STRATA_CHECK(std::binary_search(job.holders.begin(), job.holders.end(), job.destination));
  TreeMaker maker(topology, job);
  maker.Value(topology.level_count() - 1, 0, job.destination);
  return maker.Take();
}

}  // namespace strata
