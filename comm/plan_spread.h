#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/plan.h"
#include "comm/segments.h"

namespace strata {

// Bytes that some ranks have and some need, and where they lie in one rank's buffers.
struct SpreadSegment {
  ByteRange range;
  std::vector<Rank> have;      // ascending, not empty
  std::vector<Rank> need;      // ascending
  int64_t input_offset = -1;   // -1: this rank does not have them
  int64_t output_offset = -1;  // -1: this rank does not need them
};

struct SpreadOptions {
  int64_t chunk_bytes = 0;
  int64_t grain_bytes = 1;  // stripes begin at multiples of it, from their segment's begin
};

// Adds to `shell` (everything but steps and scratch) the steps by which all ranks get what they
// need. `segments` ascend and are the same on all ranks, offsets apart.
Plan PlanSpread(const Topology& topology, std::span<const SpreadSegment> segments, Rank self,
                const SpreadOptions& options, Plan shell);

}  // namespace strata
