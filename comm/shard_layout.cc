#include "comm/shard_layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

// A range on its way through the levels; see [Note: How a unit is cut].
struct Shared {
  ElementRange range;
  ElementRange whole;  // contains `range`; what the cutters share
  std::vector<Rank> cutters;
  std::vector<Rank> holders;
};

// How one group of a level splits a range: child i keeps [bounds[i], bounds[i + 1]).
struct GroupCut {
  int group = 0;
  std::vector<int64_t> bounds;
};

int64_t Blocks(int64_t elements) { return (elements + kBlockElements - 1) / kBlockElements; }

GroupCut CutGroup(const Topology& topology, int level, int group, std::span<const Rank> ranks,
                  ElementRange range) {
  const int children = static_cast<int>(topology.Children(level, group).size());
  std::vector<int64_t> weights(children);
  for (Rank rank : ranks) ++weights[topology.ChildIndex(rank, level)];
  const int64_t blocks = Blocks(range.size());
  GroupCut cut{group, {range.begin}};
  int64_t before = 0;
  for (int64_t weight : weights) {
    before += weight;
    const int64_t share = blocks * before / static_cast<int64_t>(ranks.size());
    cut.bounds.push_back(std::min(range.begin + share * kBlockElements, range.end));
  }
  return cut;
}

std::vector<Rank> RanksIn(std::span<const Rank> ranks, const Topology& topology, int level,
                          int group) {
  std::vector<Rank> in;
  for (Rank rank : ranks) {
    if (topology.Group(rank, level) == group) in.push_back(rank);
  }
  return in;
}

struct LevelCut {
  std::vector<GroupCut> groups;     // of all holders, ascending
  std::vector<int64_t> bounds;      // of all groups
  std::vector<int64_t> cut_bounds;  // of the groups with cutters
};

LevelCut CutGroups(const Topology& topology, int level, const Shared& shared) {
  LevelCut cut;
  for (Rank rank : shared.holders) {
    const int group = topology.Group(rank, level);
    if (!cut.groups.empty() && cut.groups.back().group == group) continue;
    std::vector<Rank> ranks = RanksIn(shared.cutters, topology, level, group);
    const bool cutters = !ranks.empty();
    if (!cutters) ranks = RanksIn(shared.holders, topology, level, group);
    cut.groups.push_back(
        CutGroup(topology, level, group, ranks, cutters ? shared.whole : shared.range));
    const auto& bounds = cut.groups.back().bounds;
    cut.bounds.insert(cut.bounds.end(), bounds.begin(), bounds.end());
    if (cutters) cut.cut_bounds.insert(cut.cut_bounds.end(), bounds.begin(), bounds.end());
  }
  for (auto* bounds : {&cut.bounds, &cut.cut_bounds}) {
    std::sort(bounds->begin(), bounds->end());
    bounds->erase(std::unique(bounds->begin(), bounds->end()), bounds->end());
  }
  return cut;
}

// Those of `ranks` whose child of their group keeps the segment that begins at `begin`. Ascending,
// like `ranks`, so that one pass over the groups suffices.
std::vector<Rank> Keepers(std::span<const Rank> ranks, const Topology& topology, int level,
                          std::span<const GroupCut> cuts, int64_t begin) {
  std::vector<Rank> keepers;
  auto cut = cuts.begin();
  for (Rank rank : ranks) {
    while (cut->group != topology.Group(rank, level)) ++cut;
    const int child = topology.ChildIndex(rank, level);
    if (cut->bounds[child] <= begin && begin < cut->bounds[child + 1]) keepers.push_back(rank);
  }
  return keepers;
}

// Of the ranges between neighbours in `bounds`, the one that holds `element`.
ElementRange RangeAround(std::span<const int64_t> bounds, int64_t element) {
  const auto end = std::upper_bound(bounds.begin(), bounds.end(), element);
  return {*(end - 1), *end};
}

std::vector<Shared> CutLevel(const Topology& topology, int level, bool sharded,
                             const Shared& shared) {
  const LevelCut cut = CutGroups(topology, level, shared);
  std::vector<Shared> segments;
  for (int64_t begin = shared.range.begin; begin < shared.range.end;) {
    const int64_t end = std::min(RangeAround(cut.bounds, begin).end, shared.range.end);
    Shared segment{{begin, end}, RangeAround(cut.cut_bounds, begin), {}, shared.holders};
    segment.cutters = Keepers(shared.cutters, topology, level, cut.groups, begin);
    if (sharded) segment.holders = Keepers(shared.holders, topology, level, cut.groups, begin);
    segments.push_back(std::move(segment));
    begin = end;
  }
  return segments;
}

absl::Status CheckOrder(const Topology& topology, std::span<const int> order, LevelSet sharded) {
  LevelSet seen;
  for (int level : order) {
    if (level < 0 || level >= topology.level_count() || seen.Has(level)) {
      return absl::InvalidArgumentError(
          absl::StrCat("level ", level, " in the cut order is unknown or repeated"));
    }
    seen = seen.With(level);
  }
  if (static_cast<int>(order.size()) != topology.level_count()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the cut order has ", order.size(), " levels, the topology ", topology.level_count()));
  }
  if (!sharded.Within(seen)) {
    return absl::InvalidArgumentError("a state is sharded over a level that the topology lacks");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ShardLayout> ShardLayout::Create(const Topology& topology, int64_t elements,
                                                std::span<const int> order, LevelSet sharded) {
  if (elements < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a unit of ", elements, " elements"));
  }
  STRATA_RETURN_IF_ERROR(CheckOrder(topology, order, sharded));

  std::vector<Rank> everyone(topology.size());
  for (int rank = 0; rank < topology.size(); ++rank) everyone[rank] = Rank{rank};
  std::vector<Shared> segments;
  if (elements > 0) segments.push_back({{0, elements}, {0, elements}, everyone, everyone});
  LevelSet left = sharded;
  for (int level : order) {
    if (left.empty()) break;  // holders change no more
    std::vector<Shared> finer;
    for (const Shared& segment : segments) {
      for (Shared& part : CutLevel(topology, level, sharded.Has(level), segment)) {
        finer.push_back(std::move(part));
      }
    }
    segments = std::move(finer);
    left = left.Without(LevelSet().With(level));
  }

  ShardLayout layout;
  layout.elements_ = elements;
  layout.sharded_ = sharded;
  layout.owned_.resize(topology.size());
  layout.packed_begin_.resize(topology.size());
  layout.owned_elements_.resize(topology.size());
  for (const Shared& segment : segments) {
    for (Rank holder : segment.holders) {
      auto& owned = layout.owned_[Index(holder)];
      int64_t& total = layout.owned_elements_[Index(holder)];
      if (!owned.empty() && owned.back().end == segment.range.begin) {
        owned.back().end = segment.range.end;
      } else {
        owned.push_back(segment.range);
        layout.packed_begin_[Index(holder)].push_back(total);
      }
      total += segment.range.size();
    }
  }
  return layout;
}

int64_t ShardLayout::PackedOffset(Rank rank, int64_t element) const {
  const auto& owned = owned_[Index(rank)];
  auto after = std::upper_bound(owned.begin(), owned.end(), element,
                                [](int64_t e, const ElementRange& r) { return e < r.begin; });
  if (after == owned.begin()) return -1;
  const auto range = after - 1;
  if (element >= range->end) return -1;
  return packed_begin_[Index(rank)][range - owned.begin()] + element - range->begin;
}

std::vector<Rank> ShardLayout::Holders(ElementRange range) const {
  std::vector<Rank> holders;
  for (int rank = 0; rank < static_cast<int>(owned_.size()); ++rank) {
    const int64_t first = PackedOffset(Rank{rank}, range.begin);
    const int64_t last = PackedOffset(Rank{rank}, range.end - 1);
    // Ranges of one shard do not touch: equal distances mean one range.
    if (first >= 0 && last >= 0 && last - first == range.size() - 1) {
      holders.push_back(Rank{rank});
    }
  }
  return holders;
}

absl::StatusOr<UnitShards> MakeUnitShards(const Topology& topology, const Layout& layout,
                                          int64_t elements) {
  STRATA_RETURN_IF_ERROR(CheckLayout(layout, topology));
  const std::vector<int> order = CutOrder(layout, topology.level_count());
  const LevelSet all = LevelSet::All(topology.level_count());
  STRATA_ASSIGN_OR_RETURN(auto full, ShardLayout::Create(topology, elements, order, {}));
  STRATA_ASSIGN_OR_RETURN(auto parameters,
                          ShardLayout::Create(topology, elements, order, layout.parameters));
  STRATA_ASSIGN_OR_RETURN(auto gradients,
                          ShardLayout::Create(topology, elements, order, layout.gradients));
  STRATA_ASSIGN_OR_RETURN(auto optimizer,
                          ShardLayout::Create(topology, elements, order, layout.optimizer));
  STRATA_ASSIGN_OR_RETURN(auto reduced, ShardLayout::Create(topology, elements, order, all));
  return UnitShards{std::move(full), std::move(parameters), std::move(gradients),
                    std::move(optimizer), std::move(reduced)};
}

}  // namespace strata
