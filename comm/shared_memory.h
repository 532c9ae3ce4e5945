#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace strata {

// Memory that the other ranks of this node can map: one memfd, mapped here for good.
struct SharedSegment {
  int fd = -1;
  std::span<std::byte> bytes;
};

// Hands out shared segments. What is sent inside a node from such memory is copied once, by the
// receiver; other memory is copied twice. Segments live as long as this object.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  // Zeroed, a whole number of pages. ResourceExhausted when the system has no more. Any thread, but
  // not while transports move bytes.
  virtual absl::StatusOr<SharedSegment> Allocate(int64_t bytes) = 0;
};

}  // namespace strata
