#pragma once

#include <string>
#include <vector>

namespace strata {

// Canonical positions: nodes in the order of their lowest launcher rank, ranks of a node in the
// order of their launcher ranks.
struct Numbering {
  std::vector<int> launcher;    // [position]
  std::vector<int> position;    // [launcher rank]
  std::vector<int> node_sizes;  // ranks of each node, in order
};

// `nodes[r]` names the node of launcher rank r. Pure.
Numbering NumberRanks(const std::vector<std::string>& nodes);

}  // namespace strata
