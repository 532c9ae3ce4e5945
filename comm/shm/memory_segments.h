#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "comm/shared_memory.h"

namespace strata {

// The shared segments of this process, each a sealed memfd mapped for good. Thread-safe.
class MemorySegments final : public SharedMemory {
 public:
  MemorySegments() = default;
  MemorySegments(const MemorySegments&) = delete;
  MemorySegments& operator=(const MemorySegments&) = delete;
  ~MemorySegments() override;

  absl::StatusOr<SharedSegment> Allocate(int64_t bytes) override;

  struct Place {
    uint32_t segment = 0;  // by order of allocation
    uint64_t offset = 0;
  };
  // Where `view` lies, if one segment holds all of it.
  std::optional<Place> Find(std::span<const std::byte> view) const;

  SharedSegment segment(uint32_t index) const;

 private:
  mutable std::mutex mutex_;
  std::vector<SharedSegment> segments_;
};

// A segment of another process, mapped to be read.
class MappedSegment {
 public:
  // Takes `fd`, whatever the result. DataLoss unless it is a memfd of `bytes` that cannot shrink: a
  // mapping of a file that shrinks ends the process that reads it.
  static absl::StatusOr<MappedSegment> Map(int fd, uint64_t bytes);
  MappedSegment(MappedSegment&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
  MappedSegment& operator=(MappedSegment&&) = delete;
  ~MappedSegment();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedSegment(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace strata
