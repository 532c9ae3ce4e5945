#pragma once

#include <cstdint>

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

}  // namespace strata
