#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/transport.h"

namespace strata {

// How a Tag looks on the wire: operations wrap at 20 bits, orders are cut to 12.
inline constexpr uint32_t kOperationBits = 20;
inline constexpr uint32_t kMessageBits = 20;
inline constexpr uint32_t kOrderBits = 12;

constexpr Tag OnWire(Tag tag) {
  return {.operation = tag.operation & ((1u << kOperationBits) - 1),
          .message = tag.message,
          .order = tag.order & ((1u << kOrderBits) - 1)};
}

// What selects a receive among those of one peer.
constexpr uint64_t MatchKey(Tag wire) {
  return uint64_t{wire.operation} << kMessageBits | wire.message;
}

// What is said of a peer whose message belongs to another operation than the receive it meets.
inline absl::Status OutOfStep(uint32_t operation) {
  return absl::FailedPreconditionError(
      absl::StrCat("ranks out of step at operation ", operation, ": it issued something else"));
}

// What is said of a peer whose message does not fit the receive it meets.
inline absl::Status OtherSize(Tag wire, int64_t sent_bytes, int64_t expected_bytes) {
  return absl::DataLossError(absl::StrCat("operation ", wire.operation, " message ", wire.message,
                                          ": it sent ", sent_bytes, " bytes, ", expected_bytes,
                                          " are expected"));
}

// InvalidArgument for a message that no transport carries.
inline absl::Status CheckTag(Tag tag) {
  if (tag.message >> kMessageBits == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("message ", tag.message, ": numbers end at ", (1u << kMessageBits) - 1));
}

}  // namespace strata
