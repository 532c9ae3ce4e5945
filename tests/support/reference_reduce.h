#pragma once

#include <cstdint>
#include <vector>

#include "comm/topology.h"
#include "kernels/types.h"
#include "tests/support/reference_arithmetic.h"
#include "tests/support/set_oracle.h"

namespace strata {

// The canonical sum, written from its definition and for one place at a time: no plan, no chunks.
class ReferenceReduce {
 public:
  // Elements of one block, as bits; empty: no value.
  using Values = std::vector<uint32_t>;

  // `from[rank][block]`: who has a value. `over`, `sharded`: as for a reduce plan, one bit per
  // level.
  ReferenceReduce(const Topology& topology, DType dtype, const BlockSets& from, uint32_t over,
                  uint32_t sharded)
      : topology_(topology), dtype_(dtype), from_(from), kept_apart_(~(over | sharded)) {}

  // The sum for `destination` of one block, of which rank r gives units[r].
  Values Sum(int destination, int64_t block, const std::vector<Values>& units) const {
    return Group(topology_.level_count() - 1, 0, destination, block, units);
  }

 private:
  Values Group(int level, int group, int destination, int64_t block,
               const std::vector<Values>& units) const {
    const auto children = topology_.Children(level, group);
    const int count = static_cast<int>(children.size());
    std::vector<Values> values;
    for (int i = 0; i < count; ++i) {
      if (kept_apart_ >> level & 1) {
        // Groups keep to themselves: child i is added to the destination's place only.
        const int home = topology_.Group(Rank{destination}, level);
        const auto places = topology_.Children(level, home);
        const int places_count = static_cast<int>(places.size());
        if (!places[i * places_count / count].Contains(Rank{destination})) continue;
      }
      const int first = children[i].first;
      Values value;
      if (level > 0) {
        value =
            Group(level - 1, topology_.Group(Rank{first}, level - 1), destination, block, units);
      } else if (from_[first][block]) {
        value = units[first];
      }
      if (!value.empty()) values.push_back(std::move(value));
    }
    return values.empty() ? Values{} : Tree(values, 0, values.size());
  }

  // Ceil half plus floor half.
  Values Tree(const std::vector<Values>& values, size_t begin, size_t end) const {
    if (end - begin == 1) return values[begin];
    const size_t middle = end - (end - begin) / 2;
    Values sum = Tree(values, begin, middle);
    const Values right = Tree(values, middle, end);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = AddReference(dtype_, sum[i], right[i]);
    return sum;
  }

  const Topology& topology_;
  const DType dtype_;
  const BlockSets& from_;
  const uint32_t kept_apart_;
};

}  // namespace strata
