#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/layout.h"
#include "comm/topology.h"

namespace strata {

// Elements [begin, end) of a unit.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

// Which elements of one unit each rank holds of one state. Immutable.
//
// [Note: How a unit is cut]
// A unit is cut level by level in `order`. Two sets of ranks go with a range: `cutters`, those that
// would still share it if the state were sharded over every level so far, and `holders`, those that
// do share it. Each group of the level splits the range among its children in proportion to the
// cutters in them (holders, in a group without cutters), at multiples of kBlockElements. The
// boundaries of all groups together split the range into segments, so that groups of unequal size
// fit: in each segment, one child of each group keeps it. (Boundaries of groups without cutters do
// not change what the cutters cut next.) Cutters outside those children drop out; holders do too if
// the state is sharded over the level. Segments that end up with the same rank are merged when they
// touch. Shards may be empty and may consist of several ranges (where an outer level is cut first).
//
// Cutters are among the holders, so what a rank keeps when the state is sharded over the first k
// levels of `order` lies inside what it keeps when sharded over any of those k: the optimizer's
// shard is part of the parameters' and the gradients', and contains the fully sharded one.
class ShardLayout {
 public:
  // `elements` >= 0. `order` is CutOrder of the layout: every level of the topology once.
  static absl::StatusOr<ShardLayout> Create(const Topology& topology, int64_t elements,
                                            std::span<const int> order, LevelSet sharded);

  int64_t elements() const { return elements_; }
  LevelSet sharded() const { return sharded_; }

  // Ascending, disjoint, not empty, not touching. A rank's state is stored packed in this order.
  std::span<const ElementRange> Owned(Rank rank) const { return owned_[Index(rank)]; }
  int64_t OwnedElements(Rank rank) const { return owned_elements_[Index(rank)]; }

  // Where `element` lies in the packed shard of `rank`, in elements; -1 if it is not held there.
  int64_t PackedOffset(Rank rank, int64_t element) const;

  // The ranks that hold all of `range` (not empty), ascending.
  std::vector<Rank> Holders(ElementRange range) const;

 private:
  int64_t elements_ = 0;
  LevelSet sharded_;
  std::vector<std::vector<ElementRange>> owned_;
  std::vector<std::vector<int64_t>> packed_begin_;  // [rank][range]
  std::vector<int64_t> owned_elements_;
};

// The shards of one unit under one layout. `full` is what compute needs (everything on every rank);
// `reduced` is sharded over all levels: where gradients are summed before an all-reduce goes on,
// and who counts a block in the global norm.
struct UnitShards {
  ShardLayout full;
  ShardLayout parameters;
  ShardLayout gradients;
  ShardLayout optimizer;
  ShardLayout reduced;
};

absl::StatusOr<UnitShards> MakeUnitShards(const Topology& topology, const Layout& layout,
                                          int64_t elements);

}  // namespace strata
