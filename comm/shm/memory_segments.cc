#include "comm/shm/memory_segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

absl::Status Exhausted(int64_t bytes, absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot allocate ", bytes, " bytes of shared memory: ", what));
}

// What the kernel says a new program could have; -1 if it does not say. A memfd is granted page by
// page until the kernel kills somebody, so what cannot fit is refused before.
int64_t AvailableBytes() {
  FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return -1;
  char line[256];
  long long kib = -1;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %lld kB", &kib) == 1) break;
  }
  std::fclose(file);
  return kib < 0 ? -1 : kib * 1024;
}

}  // namespace

MemorySegments::~MemorySegments() {
  for (const SharedSegment& segment : segments_) {
    munmap(segment.bytes.data(), segment.bytes.size());
    close(segment.fd);
  }
}

absl::StatusOr<SharedSegment> MemorySegments::Allocate(int64_t bytes) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("shared segment of ", bytes, " bytes"));
  }
  const int64_t available = AvailableBytes();
  if (available >= 0 && bytes > available) {
    return Exhausted(bytes, absl::StrCat("the system has ", available, " bytes available"));
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t size = (bytes + page - 1) / page * page;
  const int fd = memfd_create("strata", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return Exhausted(bytes, std::strerror(errno));
  void* base = MAP_FAILED;
  if (ftruncate(fd, size) == 0 && fallocate(fd, 0, 0, size) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  }
  if (base == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return Exhausted(bytes, std::strerror(error));
  }
  const std::lock_guard lock(mutex_);
  segments_.push_back({fd, {static_cast<std::byte*>(base), static_cast<size_t>(size)}});
  return segments_.back();
}

std::optional<MemorySegments::Place> MemorySegments::Find(std::span<const std::byte> view) const {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < segments_.size(); ++i) {
    const std::span<const std::byte> bytes = segments_[i].bytes;
    if (view.data() >= bytes.data() && view.data() + view.size() <= bytes.data() + bytes.size()) {
      return Place{static_cast<uint32_t>(i), static_cast<uint64_t>(view.data() - bytes.data())};
    }
  }
  return std::nullopt;
}

SharedSegment MemorySegments::segment(uint32_t index) const {
  const std::lock_guard lock(mutex_);
  return segments_[index];
}

absl::StatusOr<MappedSegment> MappedSegment::Map(int fd, uint64_t bytes) {
  struct stat facts {};
  const int seals = fcntl(fd, F_GET_SEALS);
  void* base = MAP_FAILED;
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &facts) == 0 && bytes > 0 &&
      static_cast<uint64_t>(facts.st_size) == bytes) {
    base = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (base == MAP_FAILED) {
    return absl::DataLossError(
        absl::StrCat("announced a segment of ", bytes, " bytes that cannot be mapped"));
  }
  return MappedSegment({static_cast<const std::byte*>(base), bytes});
}

MappedSegment::~MappedSegment() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace strata
