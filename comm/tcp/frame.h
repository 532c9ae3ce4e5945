#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "comm/transport.h"

namespace strata {

// What follows on a connection after the handshake: frames, each a header and, for kData, a
// payload.
enum class FrameKind : uint32_t {
  kData = 0x31545344,   // "DST1": one message; `bytes` of payload follow
  kReady = 0x31545352,  // "RST1": a receive for this tag is posted; see comm/outbox.h
  kFail =
      0x31545346,  // "FST1": the sender of this frame gives up on the tag; `bytes` is a status code
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  Tag tag;  // as OnWire
  uint64_t bytes = 0;
};

inline constexpr size_t kFrameHeaderBytes = 24;
using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

// Little endian on every host.
FrameHeaderBytes Encode(const FrameHeader& header);

// DataLoss for a header that no peer of ours writes: another kind, a field out of range, more than
// `max_message_bytes`.
absl::StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                              int64_t max_message_bytes);

}  // namespace strata
