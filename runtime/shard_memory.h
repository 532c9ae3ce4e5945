#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comm/shared_memory.h"

namespace strata {

// Memory for what a rank keeps for good: shards, accumulators, scratch. It comes from shared
// segments, so that what is sent inside the node is copied once. A segment costs all of its bytes
// from the start, and every rank of the node maps each: large blocks have their own, small ones
// share segments that grow with what there is already. So segments are few, and little of them is
// unused. Nothing is given back before the owner of the segments goes. One thread.
class ShardMemory {
 public:
  explicit ShardMemory(SharedMemory& shared) : shared_(shared) {}

  // Zeroed and aligned for vectors. `what` is for the error.
  absl::StatusOr<std::byte*> Allocate(int64_t bytes, absl::string_view what);

  // Handed out, and taken from the system for it.
  int64_t allocated_bytes() const { return allocated_bytes_; }
  int64_t segment_bytes() const { return segment_bytes_; }

 private:
  SharedMemory& shared_;
  std::span<std::byte> rest_;  // of the newest shared segment
  int64_t allocated_bytes_ = 0, segment_bytes_ = 0;
};

}  // namespace strata
