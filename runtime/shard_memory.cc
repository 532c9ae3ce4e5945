#include "runtime/shard_memory.h"

#include <algorithm>

#include "kernels/status.h"

namespace strata {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kLeastSegment = 1 << 20;
constexpr int64_t kShare = 16;  // a segment for many is this part of those before it
constexpr int64_t kSmall = 8;   // what is more than this part of such a segment gets its own

}  // namespace

absl::StatusOr<std::byte*> ShardMemory::Allocate(int64_t bytes, absl::string_view what) {
  const int64_t wanted = std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
  if (wanted > static_cast<int64_t>(rest_.size())) {
    const int64_t shared = std::max(kLeastSegment, segment_bytes_ / kShare);
    const bool own = wanted > shared / kSmall;
    absl::StatusOr<SharedSegment> segment = shared_.Allocate(own ? wanted : shared);
    if (!segment.ok()) return Annotate(segment.status(), what);
    segment_bytes_ += static_cast<int64_t>(segment->bytes.size());
    if (own) {
      allocated_bytes_ += wanted;
      return segment->bytes.data();
    }
    rest_ = segment->bytes;
  }
  std::byte* const memory = rest_.data();
  rest_ = rest_.subspan(static_cast<size_t>(wanted));
  allocated_bytes_ += wanted;
  return memory;
}

}  // namespace strata
