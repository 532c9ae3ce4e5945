#include "runtime/node_bytes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata {

NodeBytes::NodeBytes(EngineCore& core)
    : core_(core),
      exchange_(core, core.topology.level_count() * static_cast<int64_t>(sizeof(WireBytes))) {}

absl::Status NodeBytes::Allocate(ShardMemory& memory) { return exchange_.Allocate(memory); }

void NodeBytes::Start(uint32_t operation, int64_t step, absl::AnyInvocable<void() &&> ended) {
  const StepReport own = core_.meter.Report(step);
  for (size_t level = 0; level < own.levels.size(); ++level) {
    const WireBytes moved{own.levels[level].sent_bytes, own.levels[level].received_bytes};
    std::memcpy(exchange_.own().data() + level * sizeof(moved), &moved, sizeof(moved));
  }
  exchange_.Start(operation, absl::StrCat("bytes of step ", step),
                  [this, step, ended = std::move(ended)]() mutable {
                    Sum(step);
                    std::move(ended)();
                  });
}

void NodeBytes::Sum(int64_t step) {
  const int node_level = std::max(0, core_.topology.FindLevel("node"));
  const RankSpan node =
      core_.topology.Members(node_level, core_.topology.Group(core_.self, node_level));
  std::vector<StepReport::PerLevel>& levels = core_.meter.report(step).levels;
  for (size_t level = 0; level < levels.size(); ++level) {
    levels[level].node_sent_bytes = levels[level].node_received_bytes = 0;
    for (int rank = node.first; rank < node.first + node.count; ++rank) {
      WireBytes moved;
      std::memcpy(&moved, exchange_.Of(Rank{rank}).data() + level * sizeof(moved), sizeof(moved));
      levels[level].node_sent_bytes += moved.sent;
      levels[level].node_received_bytes += moved.received;
    }
  }
}

}  // namespace strata
