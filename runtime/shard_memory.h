#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comm/shared_memory.h"

namespace strata {

// Memory for what a rank keeps for good: shards, accumulators, scratch. It comes from shared
// segments, so that what is sent inside the node is copied once. Segments double in size while units
// are declared; untouched pages of a segment cost nothing. Nothing is given back before the owner of
// the segments goes. One thread.
class ShardMemory {
 public:
  explicit ShardMemory(SharedMemory& shared) : shared_(shared) {}

  // Zeroed and aligned for vectors. `what` is for the error.
  absl::StatusOr<std::byte*> Allocate(int64_t bytes, absl::string_view what);

  int64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  SharedMemory& shared_;
  std::span<std::byte> rest_;  // of the newest segment
  int64_t next_segment_bytes_ = 1 << 20;
  int64_t allocated_bytes_ = 0;
};

}  // namespace strata
