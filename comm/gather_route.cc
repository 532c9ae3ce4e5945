#include "comm/gather_route.h"

#include <algorithm>

namespace strata {
namespace {

// The stripe on its way.
class Router {
 public:
  Router(const Topology& topology, const Spread& spread, int stripe, int stripe_count)
      : topology_(topology),
        stripe_(stripe),
        stripe_count_(stripe_count),
        behind_(topology.size(), kNotHere),
        needs_(topology.size(), 0) {
    for (Rank rank : spread.have) behind_[Index(rank)] = 0;
    for (Rank rank : spread.need) needs_[Index(rank)] = 1;
  }

  // Within a group that has the stripe somewhere.
  void SpreadIn(int level, int group) {
    const auto children = topology_.Children(level, group);
    const int count = static_cast<int>(children.size());
    std::vector<int> sources;
    for (int child = 0; child < count; ++child) {
      if (Has(children[child])) sources.push_back(child);
    }
    if (level == 0) return Distribute(children, sources);
    for (size_t i = 0; i < sources.size(); ++i) {
      const bool last = i + 1 == sources.size();
      PassAlong(level, children, sources[i], last ? sources[0] + count : sources[i + 1]);
    }
    for (const RankSpan& child : children) {
      if (Needs(child)) SpreadIn(level - 1, topology_.Group(Rank{child.first}, level - 1));
    }
  }

  std::vector<Transfer> Take() { return std::move(transfers_); }

 private:
  static constexpr int kNotHere = -1;

  bool Has(const RankSpan& span) const {
    return std::any_of(behind_.begin() + span.first, behind_.begin() + span.first + span.count,
                       [](int behind) { return behind != kNotHere; });
  }
  bool Needs(const RankSpan& span) const {
    const auto first = needs_.begin() + span.first;
    return std::find(first, first + span.count, 1) != first + span.count;
  }

  // The rank of a group that has the stripe whose turn it is to send it.
  Rank Sender(const RankSpan& span) const {
    std::vector<Rank> have;
    for (int rank = span.first; rank < span.first + span.count; ++rank) {
      if (behind_[rank] != kNotHere) have.push_back(Rank{rank});
    }
    return have[have.size() * stripe_ / stripe_count_];
  }

  // Where a stripe that starts at `source` of group `from` enters group `to`.
  Rank Entry(Rank source, const RankSpan& from, const RankSpan& to) const {
    const int local = Index(source) - from.first;
    const int matching = to.first + local * to.count / from.count;
    if (needs_[matching]) return Rank{matching};
    std::vector<Rank> need;
    for (int rank = to.first; rank < to.first + to.count; ++rank) {
      if (needs_[rank]) need.push_back(Rank{rank});
    }
    return need[need.size() * local / from.count];
  }

  // Along the ring from child `source` to child `end`, which has the stripe itself. `end` may
  // exceed the number of children: the ring goes on from the first.
  void PassAlong(int level, std::span<const RankSpan> children, int source, int end) {
    const int count = static_cast<int>(children.size());
    const Rank first = Sender(children[source]);
    Rank sender = first;
    for (int child = source + 1; child < end; ++child) {
      const RankSpan& target = children[child % count];
      if (!Needs(target)) continue;
      const Rank entry = Entry(first, children[source], target);
      Pass(sender, entry, level);
      sender = entry;
    }
  }

  void Distribute(std::span<const RankSpan> ranks, std::span<const int> sources) {
    const Rank sender{ranks[sources[sources.size() * stripe_ / stripe_count_]].first};
    for (const RankSpan& rank : ranks) {
      if (needs_[rank.first] && behind_[rank.first] == kNotHere) Pass(sender, Rank{rank.first}, 0);
    }
  }

  void Pass(Rank from, Rank to, int level) {
    transfers_.push_back({from, to, level, behind_[Index(from)]});
    behind_[Index(to)] = behind_[Index(from)] + 1;
  }

  const Topology& topology_;
  const int stripe_;
  const int stripe_count_;
  std::vector<int> behind_;  // [rank] transfers that the stripe had behind it there
  std::vector<char> needs_;  // [rank]
  std::vector<Transfer> transfers_;
};

// Ranks of `ranks` per group of `level`; per rank for level -1.
std::vector<int> CountPerGroup(const Topology& topology, int level, std::span<const Rank> ranks) {
  std::vector<int> counts(level < 0 ? topology.size() : topology.group_count(level));
  for (Rank rank : ranks) ++counts[level < 0 ? Index(rank) : topology.Group(rank, level)];
  return counts;
}

}  // namespace

int StripeCount(const Topology& topology, const Spread& spread) {
  // The outermost level at which a child group must be entered decides who sends.
  for (int level = topology.level_count() - 2; level >= 0; --level) {
    const std::vector<int> have = CountPerGroup(topology, level, spread.have);
    const std::vector<int> need = CountPerGroup(topology, level, spread.need);
    for (size_t group = 0; group < have.size(); ++group) {
      if (need[group] > 0 && have[group] == 0) return *std::max_element(have.begin(), have.end());
    }
  }
  const std::vector<int> have = CountPerGroup(topology, 0, spread.have);
  return *std::max_element(have.begin(), have.end());
}

std::vector<Transfer> RouteStripe(const Topology& topology, const Spread& spread, int stripe,
                                  int stripe_count) {
  Router router(topology, spread, stripe, stripe_count);
  router.SpreadIn(topology.level_count() - 1, 0);
  return router.Take();
}

}  // namespace strata
