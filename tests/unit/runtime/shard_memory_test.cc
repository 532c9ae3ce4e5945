#include "runtime/shard_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/support/memfd_memory.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

// Counts what it is asked for.
class CountingMemory final : public SharedMemory {
 public:
  absl::StatusOr<SharedSegment> Allocate(int64_t bytes) override {
    ++segments;
    return memory_.Allocate(bytes);
  }
  int segments = 0;

 private:
  MemfdMemory memory_;
};

// Declares units of these sizes, four buffers each, as a unit table does.
void Declare(const std::vector<int64_t>& sizes, ShardMemory& memory) {
  std::vector<std::pair<std::byte*, int64_t>> blocks;
  for (int64_t size : sizes) {
    for (int buffer = 0; buffer < 4; ++buffer) {
      const absl::StatusOr<std::byte*> allocated = memory.Allocate(size, "test");
      ASSERT_OK(allocated);
      std::byte* const block = *allocated;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
      for (const int64_t i : {int64_t{0}, size / 2}) {
        if (i < size) {
          EXPECT_EQ(block[i], std::byte{0});
        }
      }
      if (size > 0) block[0] = block[size - 1] = std::byte{1};
      blocks.push_back({block, size});
    }
  }
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i - 1].first + blocks[i - 1].second, blocks[i].first) << "blocks overlap";
  }
}

TEST(ShardMemoryTest, WastesAtMostAnEighthAndAMebibyte) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
           {},
           {0},
           {1, 957, 5003},
           std::vector<int64_t>(100, 4),
           std::vector<int64_t>(40, 331 << 10),
           std::vector<int64_t>(40, 130 << 10),
           std::vector<int64_t>(90, 127 << 10),
           std::vector<int64_t>(7, 5 * kMebibyte + 1),
           {1, 9 * kMebibyte, 3, 17 * kMebibyte, 700000, 5, 3 * kMebibyte},
       }) {
    CountingMemory counting;
    ShardMemory memory(counting);
    Declare(sizes, memory);
    int64_t wanted = 0;
    for (int64_t size : sizes) wanted += 4 * size;
    EXPECT_GE(memory.allocated_bytes(), wanted);
    EXPECT_GE(memory.segment_bytes(), memory.allocated_bytes());
    const int64_t unused = memory.segment_bytes() - memory.allocated_bytes();
    EXPECT_LE(unused, kMebibyte + memory.segment_bytes() / 8)
        << wanted << " bytes in " << counting.segments << " segments";
  }
}

TEST(ShardMemoryTest, SegmentsAreFew) {
  CountingMemory counting;
  ShardMemory memory(counting);
  Declare(std::vector<int64_t>(1000, 65537), memory);
  Declare(std::vector<int64_t>(3, 20 * kMebibyte), memory);
  EXPECT_GT(memory.allocated_bytes(), 490 * kMebibyte);
  EXPECT_LT(counting.segments, 100);
}

}  // namespace
}  // namespace strata
