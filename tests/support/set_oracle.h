#pragma once

#include <cstdint>
#include <vector>

namespace strata {

// What ranks hold and what collectives must move, from sets alone. Shares no code with what it
// checks: sizes, levels and ranks are plain numbers, levels and sizes innermost first.

// Which of a unit's blocks of 256 elements each rank holds: [rank][block].
using BlockSets = std::vector<std::vector<bool>>;

// Groups of equal size: level l joins sizes[l] groups of the next inner level. A unit is cut level
// by level in `order`; the state is sharded over the levels whose bit is set in `sharded`.
BlockSets EqualGroupSets(const std::vector<int>& sizes, const std::vector<int>& order,
                         uint32_t sharded, int64_t elements);

// Bytes that must enter the group of `ranks` from outside when every rank ends with its part of
// `need`: |needed by the group| - |held by the group|.
int64_t GatherBytes(const BlockSets& have, const BlockSets& need, const std::vector<int>& ranks,
                    int64_t elements, int64_t element_bytes);

// Bytes that must leave the group of `ranks`, whose values are added among themselves before they
// go: |given by the group| - |kept by the group|.
int64_t ReduceBytes(const BlockSets& from, const BlockSets& to, const std::vector<int>& ranks,
                    int64_t elements, int64_t element_bytes);

}  // namespace strata
