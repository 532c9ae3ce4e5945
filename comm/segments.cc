#include "comm/segments.h"

#include <algorithm>

namespace strata {
namespace {

// Adds `rank` to the segments that its ranges cover. Both ascend and no range ends inside a
// segment.
void AddHolder(std::span<const ElementRange> owned, Rank rank, std::vector<Segment>& segments,
               std::vector<Rank> Segment::*holders) {
  auto segment = segments.begin();
  for (const ElementRange& range : owned) {
    while (segment->range.begin < range.begin) ++segment;
    for (; segment != segments.end() && segment->range.end <= range.end; ++segment) {
      ((*segment).*holders).push_back(rank);
    }
  }
}

// Tags carry 20 bits of message (see Tag).
constexpr int64_t kMaxMessages = int64_t{1} << 20;

}  // namespace

std::vector<Segment> CommonSegments(const ShardLayout& from, const ShardLayout& to, int ranks) {
  std::vector<int64_t> bounds = {0, from.elements()};
  for (const ShardLayout* state : {&from, &to}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const ElementRange& range : state->Owned(Rank{rank})) {
        bounds.push_back(range.begin);
        bounds.push_back(range.end);
      }
    }
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());

  std::vector<Segment> segments;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    segments.push_back({{bounds[i], bounds[i + 1]}, {}, {}});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    AddHolder(from.Owned(Rank{rank}), Rank{rank}, segments, &Segment::from);
    AddHolder(to.Owned(Rank{rank}), Rank{rank}, segments, &Segment::to);
  }
  return segments;
}

ByteRange Chunk(ByteRange range, int64_t chunk_bytes, int64_t number) {
  const int64_t begin = (range.begin / chunk_bytes + number) * chunk_bytes;
  return {std::max(range.begin, begin), std::min(range.end, begin + chunk_bytes)};
}

int64_t ChunkThatFitsTags(int64_t chunk_bytes, int64_t unit_bytes, int64_t cuts) {
  while (unit_bytes / chunk_bytes + 1 + cuts > kMaxMessages && chunk_bytes < unit_bytes) {
    chunk_bytes *= 2;
  }
  return chunk_bytes;
}

}  // namespace strata
