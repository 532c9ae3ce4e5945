#include "comm/tcp/frame.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/wire_tag.h"

namespace strata {
namespace {

template <typename T>
void Put(std::byte* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

template <typename T>
T Take(const std::byte* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(from[i]) << (8 * i);
  return value;
}

}  // namespace

FrameHeaderBytes Encode(const FrameHeader& header) {
  FrameHeaderBytes bytes;
  Put(bytes.data(), static_cast<uint32_t>(header.kind));
  Put(bytes.data() + 4, header.tag.operation);
  Put(bytes.data() + 8, header.tag.message);
  Put(bytes.data() + 12, header.tag.order);
  Put(bytes.data() + 16, header.bytes);
  return bytes;
}

absl::StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                              int64_t max_message_bytes) {
  FrameHeader header;
  const uint32_t kind = Take<uint32_t>(bytes.data());
  header.kind = static_cast<FrameKind>(kind);
  header.tag = {.operation = Take<uint32_t>(bytes.data() + 4),
                .message = Take<uint32_t>(bytes.data() + 8),
                .order = Take<uint32_t>(bytes.data() + 12)};
  header.bytes = Take<uint64_t>(bytes.data() + 16);
  if (header.kind != FrameKind::kData && header.kind != FrameKind::kReady &&
      header.kind != FrameKind::kFail) {
    return absl::DataLossError(absl::StrCat("not a frame: it begins with ", absl::Hex(kind)));
  }
  if (header.tag.operation >> kOperationBits != 0 || header.tag.message >> kMessageBits != 0 ||
      header.tag.order >> kOrderBits != 0) {
    return absl::DataLossError("frame with a tag out of range");
  }
  if (header.bytes > static_cast<uint64_t>(max_message_bytes)) {
    return absl::DataLossError(absl::StrCat("frame of ", header.bytes, " bytes; at most ",
                                            max_message_bytes, " are taken"));
  }
  return header;
}

}  // namespace strata
