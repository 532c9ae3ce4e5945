#pragma once

#include <cstdint>
#include <vector>

#include "comm/shard_layout.h"

namespace strata {

// A run of elements that the same ranks hold, in each of two states of one unit.
struct Segment {
  ElementRange range;
  std::vector<Rank> from;  // ascending
  std::vector<Rank> to;    // ascending
};

// The longest such runs, ascending. `from` and `to` are of one unit and one topology.
std::vector<Segment> CommonSegments(const ShardLayout& from, const ShardLayout& to, int ranks);

// Bytes [begin, end) of a unit.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

inline ByteRange InBytes(ElementRange range, int64_t element_bytes) {
  return {range.begin * element_bytes, range.end * element_bytes};
}

// How many pieces a range (not empty) has when it is cut at multiples of `chunk_bytes` of the unit,
// and the piece with a given number, from 0.
inline int64_t ChunkCount(ByteRange range, int64_t chunk_bytes) {
  return (range.end - 1) / chunk_bytes - range.begin / chunk_bytes + 1;
}
ByteRange Chunk(ByteRange range, int64_t chunk_bytes, int64_t number);

// `chunk_bytes` doubled until a unit of `unit_bytes`, cut at its multiples and at `cuts` more
// places, has fewer pieces than a tag can number.
int64_t ChunkThatFitsTags(int64_t chunk_bytes, int64_t unit_bytes, int64_t cuts);

}  // namespace strata
