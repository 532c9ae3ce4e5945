#include "comm/numbering.h"

#include <map>

namespace strata {

Numbering NumberRanks(const std::vector<std::string>& nodes) {
  std::map<std::string, size_t> node_index;
  std::vector<std::vector<int>> members;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto [found, is_new] = node_index.emplace(nodes[rank], members.size());
    if (is_new) members.emplace_back();
    members[found->second].push_back(static_cast<int>(rank));
  }
  Numbering numbering;
  numbering.position.resize(nodes.size());
  for (const std::vector<int>& node : members) {
    numbering.node_sizes.push_back(static_cast<int>(node.size()));
    for (const int rank : node) {
      numbering.position[rank] = static_cast<int>(numbering.launcher.size());
      numbering.launcher.push_back(rank);
    }
  }
  return numbering;
}

}  // namespace strata
