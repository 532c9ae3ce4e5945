#pragma once

#include <cstdint>
#include <span>

namespace strata {

// Bytes of text and the bytes that follow them: `sequences` rows of equal length, row by row.
struct Batch {
  int64_t sequences = 0;
  std::span<const uint8_t> tokens, targets;  // sequences x length
};

}  // namespace strata
