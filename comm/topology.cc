#include "comm/topology.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

absl::Status CheckLevel(std::span<const Level> levels, size_t index) {
  const Level& level = levels[index];
  if (level.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("level ", index, " has no name"));
  }
  for (size_t other = 0; other < index; ++other) {
    if (levels[other].name == level.name) {
      return absl::InvalidArgumentError(absl::StrCat("levels ", other, " and ", index,
                                                     " are both named \"", level.name,
                                                     "\"; give each level its own name"));
    }
  }
  if (level.children.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("level \"", level.name, "\" has no group"));
  }
  int64_t children = 0;
  for (size_t group = 0; group < level.children.size(); ++group) {
    if (level.children[group] < 1) {
      return absl::InvalidArgumentError(absl::StrCat("group ", group, " of level \"", level.name,
                                                     "\" has ", level.children[group],
                                                     " members; each needs at least 1"));
    }
    children += level.children[group];
  }
  if (index > 0 && children != static_cast<int64_t>(levels[index - 1].children.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("level \"", level.name, "\" is made of ", children, " groups, but level \"",
                     levels[index - 1].name, "\" has ", levels[index - 1].children.size()));
  }
  if (index + 1 == levels.size() && level.children.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("the outermost level \"", level.name, "\" has ",
                                                   level.children.size(),
                                                   " groups; it must have exactly 1"));
  }
  return absl::OkStatus();
}

// Level names are for people and for FindLevel; a set of levels is a 32-bit mask.
constexpr size_t kMaxLevels = 16;

}  // namespace

absl::StatusOr<Topology> Topology::Create(std::vector<Level> levels) {
  if (levels.empty() || levels.size() > kMaxLevels) {
    return absl::InvalidArgumentError(
        absl::StrCat("a topology has 1 to ", kMaxLevels, " levels, not ", levels.size()));
  }
  for (size_t i = 0; i < levels.size(); ++i) STRATA_RETURN_IF_ERROR(CheckLevel(levels, i));

  Topology topology;
  topology.levels_ = std::move(levels);
  const auto& innermost = topology.levels_[0].children;
  topology.size_ = std::accumulate(innermost.begin(), innermost.end(), 0);
  std::vector<RankSpan> inner(topology.size_);
  for (int rank = 0; rank < topology.size_; ++rank) inner[rank] = {rank, 1};
  for (const Level& level : topology.levels_) {
    std::vector<RankSpan> groups;
    std::vector<std::vector<RankSpan>> children;
    std::vector<int> group_of;
    auto next = inner.begin();
    for (int count : level.children) {
      children.emplace_back(next, next + count);
      next += count;
      RankSpan group{children.back().front().first, 0};
      for (const RankSpan& child : children.back()) group.count += child.count;
      group_of.insert(group_of.end(), group.count, static_cast<int>(groups.size()));
      groups.push_back(group);
    }
    topology.groups_.push_back(groups);
    topology.children_.push_back(std::move(children));
    topology.group_of_.push_back(std::move(group_of));
    inner = std::move(groups);
  }
  return topology;
}

Topology Topology::Uniform(int nodes, int ranks_per_node) {
  auto topology =
      Create({{"node", std::vector<int>(nodes, ranks_per_node), {}}, {"cluster", {nodes}, {}}});
  STRATA_CHECK(topology.ok());
  return *std::move(topology);
}

int Topology::FindLevel(absl::string_view name) const {
  for (int level = 0; level < level_count(); ++level) {
    if (levels_[level].name == name) return level;
  }
  return -1;
}

std::span<const RankSpan> Topology::Children(int level, int group) const {
  return children_[level][group];
}

int Topology::ChildIndex(Rank rank, int level) const {
  if (level == 0) return Index(rank) - Members(0, Group(rank, 0)).first;
  // Groups of a level are numbered in canonical order, so a group's children are consecutive.
  const Rank first{Members(level, Group(rank, level)).first};
  return Group(rank, level - 1) - Group(first, level - 1);
}

int Topology::LevelBetween(Rank a, Rank b) const {
  int level = 0;
  while (Group(a, level) != Group(b, level)) ++level;
  return level;
}

}  // namespace strata
