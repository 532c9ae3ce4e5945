#pragma once

#include <cstdint>

#include "comm/transport.h"
#include "comm/wire_tag.h"
#include "kernels/types.h"

namespace strata {

// UCX's tag of 64 bits: source 12 | operation 20 | message 20 | order 12. No rank has the last
// source; it marks messages between transports, which name their sender and what they are.
inline constexpr uint32_t kSourceShift = kOperationBits + kMessageBits + kOrderBits;
inline constexpr uint64_t kOrderMask = (uint64_t{1} << kOrderBits) - 1;
inline constexpr int kMaxUcxRanks = 4095;

// `wire` is as OnWire.
inline uint64_t Pack(Rank source, Tag wire) {
  return static_cast<uint64_t>(Index(source)) << kSourceShift | MatchKey(wire) << kOrderBits |
         wire.order;
}

inline Rank SourceOf(uint64_t tag) { return Rank{static_cast<int>(tag >> kSourceShift)}; }

inline Tag Unpack(uint64_t tag) {
  return {.operation = static_cast<uint32_t>(tag >> (kMessageBits + kOrderBits)) &
                       ((1u << kOperationBits) - 1),
          .message = static_cast<uint32_t>(tag >> kOrderBits) & ((1u << kMessageBits) - 1),
          .order = static_cast<uint32_t>(tag & kOrderMask)};
}

}  // namespace strata
