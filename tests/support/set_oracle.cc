#include "tests/support/set_oracle.h"

#include <algorithm>
#include <numeric>

namespace strata {
namespace {

constexpr int64_t kBlock = 256;

// Coordinate of `rank` at `level`: which child of its group it is in.
int Coordinate(const std::vector<int>& sizes, int level, int rank) {
  int inner = 1;
  for (int l = 0; l < level; ++l) inner *= sizes[l];
  return rank / inner % sizes[level];
}

bool Holds(const std::vector<int>& sizes, const std::vector<int>& order, uint32_t sharded, int rank,
           int64_t block, int64_t blocks) {
  int64_t begin = 0, end = blocks;
  for (int level : order) {
    int child = 0;
    int64_t child_begin = begin, child_end = begin;
    for (;; ++child) {
      child_begin = begin + (end - begin) * child / sizes[level];
      child_end = begin + (end - begin) * (child + 1) / sizes[level];
      if (child_begin <= block && block < child_end) break;
    }
    begin = child_begin;
    end = child_end;
    if ((sharded >> level & 1) != 0 && Coordinate(sizes, level, rank) != child) return false;
  }
  return true;
}

// Bytes of the blocks that some rank of `ranks` has in `a`, but none has in `b`.
int64_t Difference(const BlockSets& a, const BlockSets& b, const std::vector<int>& ranks,
                   int64_t elements, int64_t element_bytes) {
  int64_t bytes = 0;
  for (int64_t block = 0; block * kBlock < elements; ++block) {
    const auto has = [block](const BlockSets& sets) {
      return [&sets, block](int rank) { return static_cast<bool>(sets[rank][block]); };
    };
    if (std::any_of(ranks.begin(), ranks.end(), has(a)) &&
        std::none_of(ranks.begin(), ranks.end(), has(b))) {
      bytes += std::min(kBlock, elements - block * kBlock) * element_bytes;
    }
  }
  return bytes;
}

}  // namespace

BlockSets EqualGroupSets(const std::vector<int>& sizes, const std::vector<int>& order,
                         uint32_t sharded, int64_t elements) {
  const int ranks = std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>());
  const int64_t blocks = (elements + kBlock - 1) / kBlock;
  BlockSets sets(ranks, std::vector<bool>(blocks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (int64_t block = 0; block < blocks; ++block) {
      sets[rank][block] = Holds(sizes, order, sharded, rank, block, blocks);
    }
  }
  return sets;
}

int64_t GatherBytes(const BlockSets& have, const BlockSets& need, const std::vector<int>& ranks,
                    int64_t elements, int64_t element_bytes) {
  return Difference(need, have, ranks, elements, element_bytes);
}

int64_t ReduceBytes(const BlockSets& from, const BlockSets& to, const std::vector<int>& ranks,
                    int64_t elements, int64_t element_bytes) {
  return Difference(from, to, ranks, elements, element_bytes);
}

}  // namespace strata
