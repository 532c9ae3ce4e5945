#include "comm/plan_spread.h"

#include <algorithm>
#include <utility>

#include "comm/gather_route.h"
#include "comm/plan_builder.h"

namespace strata {
namespace {

// This rank's part in one stripe of one segment.
struct Part {
  const SpreadSegment* segment = nullptr;
  ByteRange range;
  int64_t first_message = 0;
  const Transfer* incoming = nullptr;  // null: it has the stripe or takes no part
  std::vector<Transfer> outgoing;
};

// A rank's own part of a unit is sent first, then what it forwards, in the order in which it
// arrives: by the number of transfers behind it, then by chunk.
void AddPart(const Topology& topology, const Part& part, Rank self, int64_t chunk_bytes,
             PlanBuilder& builder) {
  const SpreadSegment& segment = *part.segment;
  const int64_t input = segment.input_offset - segment.range.begin;
  const int64_t output = segment.output_offset - segment.range.begin;
  const bool has = segment.input_offset >= 0;
  for (int64_t i = 0; i < ChunkCount(part.range, chunk_bytes); ++i) {
    const ByteRange chunk = Chunk(part.range, chunk_bytes, i);
    const auto message = static_cast<uint32_t>(part.first_message + i);
    const int64_t turn = chunk.begin / chunk_bytes;
    const Slice in{BufferId::kInput, input + chunk.begin, chunk.size()};
    const Slice out{BufferId::kOutput, output + chunk.begin, chunk.size()};
    std::vector<int> received;
    if (part.incoming != nullptr) {
      received = {builder.Recv(part.incoming->from, part.incoming->level, message, out)};
    }
    for (const Transfer& to : part.outgoing) {
      const int rotation = (Index(to.to) - Index(self) + topology.size()) % topology.size();
      builder.Send(to.to, to.level, message, has ? in : out, {to.round, turn, rotation}, received);
    }
    if (has && segment.output_offset >= 0) {
      builder.Copy(in, out, {0, turn, topology.size()});  // after this chunk's sends
    }
  }
}

}  // namespace

Plan PlanSpread(const Topology& topology, std::span<const SpreadSegment> segments, Rank self,
                const SpreadOptions& options, Plan shell) {
  const int64_t unit_bytes = segments.empty() ? 0 : segments.back().range.end;
  const int64_t cuts = static_cast<int64_t>(segments.size()) * topology.size();
  const int64_t chunk_bytes = ChunkThatFitsTags(options.chunk_bytes, unit_bytes, cuts);
  PlanBuilder builder(std::move(shell), chunk_bytes);
  int64_t messages = 0;
  for (const SpreadSegment& segment : segments) {
    const Spread spread{segment.have, segment.need};
    const int64_t grains = (segment.range.size() + options.grain_bytes - 1) / options.grain_bytes;
    const int stripes = StripeCount(topology, spread);
    for (int stripe = 0; stripe < stripes; ++stripe) {
      const auto bound = [&](int64_t i) {
        return std::min(segment.range.begin + grains * i / stripes * options.grain_bytes,
                        segment.range.end);
      };
      Part part{&segment, {bound(stripe), bound(stripe + 1)}, messages, nullptr, {}};
      if (part.range.size() == 0) continue;
      const std::vector<Transfer> route = RouteStripe(topology, spread, stripe, stripes);
      for (const Transfer& transfer : route) {
        if (transfer.to == self) part.incoming = &transfer;
        if (transfer.from == self) part.outgoing.push_back(transfer);
      }
      AddPart(topology, part, self, chunk_bytes, builder);
      messages += ChunkCount(part.range, chunk_bytes);
    }
  }
  return std::move(builder).Finish();
}

}  // namespace strata
