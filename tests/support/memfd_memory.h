#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "comm/shared_memory.h"

namespace strata {

// Shared segments for tests that have no node around them: memfds, mapped here only.
class MemfdMemory final : public SharedMemory {
 public:
  ~MemfdMemory() override {
    for (const SharedSegment& segment : segments_) {
      munmap(segment.bytes.data(), segment.bytes.size());
      close(segment.fd);
    }
  }

  absl::StatusOr<SharedSegment> Allocate(int64_t bytes) override {
    const int64_t size = (std::max<int64_t>(1, bytes) + 4095) / 4096 * 4096;
    const int fd = memfd_create("strata-test", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, size) != 0) return absl::ResourceExhaustedError("memfd");
    void* const memory =
        mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return absl::ResourceExhaustedError("mmap");
    segments_.push_back({fd, {static_cast<std::byte*>(memory), static_cast<size_t>(size)}});
    return segments_.back();
  }

 private:
  std::vector<SharedSegment> segments_;
};

}  // namespace strata
