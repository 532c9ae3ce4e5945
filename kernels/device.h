#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/stream.h"

namespace strata {

// A run of a device's memory, zeroed when made; gives itself back.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::span<std::byte> bytes() const = 0;  // as the device's kernels address it
};

// Where kernels run: makes the streams and holds the memory that a rank uses for its whole life.
//
// [Note: Order between streams] Calls on one stream run in order. What one stream made is another's
// to read from the moment a Notify launched after it has fired; there is no other order between
// streams. On a host every kernel has ended when Launch returns, so within one thread the order of
// calls is enough. A device with its own queues records an event per Notify and waits for it on a
// thread of its own; callers see a Done in either case, and need no other kind of event.
class Device {
 public:
  virtual ~Device() = default;

  // A stream that reports through `post`. It must not outlive the device.
  virtual std::unique_ptr<Stream> MakeStream(PostFunction post) = 0;

  // At least `bytes` > 0, aligned for vectors and pages. ResourceExhausted says what was wanted and
  // what the system said. May block; not after Seal.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) = 0;
};

// The processor and ordinary memory: HostStreams and anonymous mappings.
class HostDevice final : public Device {
 public:
  std::unique_ptr<Stream> MakeStream(PostFunction post) override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes) override;
};

}  // namespace strata
