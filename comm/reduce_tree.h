#pragma once

#include <span>
#include <vector>

#include "comm/layout.h"
#include "comm/topology.h"

namespace strata {

// One value of a sum: what a rank gives, or the sum of two earlier nodes.
struct ReduceNode {
  int left = -1, right = -1;  // into the tree; -1 for what `at` gives itself
  int parent = -1;            // -1 for the sum
  Rank at{};                  // where the value comes to be
};

// A sum for one destination. Children come before their parents, the sum itself is last.
using ReduceTree = std::vector<ReduceNode>;

// Whose values are added, for one destination.
struct ReduceJob {
  std::span<const Rank> holders;  // the ranks that have a value, ascending
  LevelSet over;                  // levels over which values are added
  LevelSet sharded;               // levels over which holders are sharded
  Rank destination{};             // one of `holders`
};

// [Note: Canonical order]
// The values of a group are added in a binary tree over its child groups in canonical order: the
// first half (the larger one, if they differ) plus the second half; the value of a child group is
// the tree of its own children. So the tree is nested per level, innermost first. Groups without a
// value do not count. Each sum is rounded once, wherever it is computed.
//
// Over a level that is neither added over nor sharded, groups keep to themselves: rank 1 of a node
// is added to rank 1 of the others. Where nodes differ in size, local indices are scaled, so that
// each value is added exactly once.
//
// Where the tree is computed: a group's value comes to be at the destination if it is a member,
// else at the member with the matching index. It gets the values of the other child groups directly
// and adds them; where they are a power of two above 2, at an outer level, by distance doubling:
// halves of the tree meet at the child whose index has the low bits of the destination's, so that
// in each round everyone talks to one partner. The tree, and so the bits, are the same.
ReduceTree MakeReduceTree(const Topology& topology, const ReduceJob& job);

}  // namespace strata
