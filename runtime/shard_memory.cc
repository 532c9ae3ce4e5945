#include "runtime/shard_memory.h"

#include <algorithm>

#include "kernels/status.h"

namespace strata {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kLargestSegment = 64 << 20;

}  // namespace

absl::StatusOr<std::byte*> ShardMemory::Allocate(int64_t bytes, absl::string_view what) {
  const int64_t wanted = std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
  if (wanted > static_cast<int64_t>(rest_.size())) {
    absl::StatusOr<SharedSegment> segment =
        shared_.Allocate(std::max(wanted, next_segment_bytes_));
    if (!segment.ok()) return Annotate(segment.status(), what);
    rest_ = segment->bytes;
    next_segment_bytes_ = std::min(kLargestSegment, 2 * next_segment_bytes_);
  }
  std::byte* memory = rest_.data();
  rest_ = rest_.subspan(static_cast<size_t>(wanted));
  allocated_bytes_ += bytes;
  return memory;
}

}  // namespace strata
