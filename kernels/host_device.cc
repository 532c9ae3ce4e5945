#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/device.h"
#include "kernels/host_stream.h"
#include "kernels/status.h"

namespace strata {
namespace {

class Mapping final : public DeviceMemory {
 public:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~Mapping() override { munmap(bytes_.data(), bytes_.size()); }
  std::span<std::byte> bytes() const override { return bytes_; }

 private:
  const std::span<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<Stream> HostDevice::MakeStream(PostFunction post) {
  return std::make_unique<HostStream>(std::move(post));
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> HostDevice::Allocate(int64_t bytes) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("allocate ", bytes, " bytes of host memory: ask for at least one"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("allocate ", bytes, " bytes of host memory: ", std::strerror(errno),
                     "; use more ranks, a smaller model or a machine with more memory"));
  }
  return std::make_unique<Mapping>(
      std::span(static_cast<std::byte*>(data), static_cast<size_t>(bytes)));
}

}  // namespace strata
