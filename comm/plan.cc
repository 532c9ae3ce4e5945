#include "comm/plan.h"

#include <algorithm>
#include <vector>

namespace strata {

WireBytes CountWireBytes(const Plan& plan, int level) {
  WireBytes bytes;
  for (const Step& step : plan.steps) {
    if (step.level != level) continue;
    if (step.op == Op::kSend) bytes.sent += step.src.bytes;
    if (step.op == Op::kRecv) bytes.received += step.dst.bytes;
  }
  return bytes;
}

absl::Duration Estimate(std::span<const Plan> plans, const Topology& topology) {
  absl::Duration slowest;
  for (int level = 0; level < topology.level_count(); ++level) {
    const Link& link = topology.levels()[level].link;
    const int children = level == 0 ? topology.size() : topology.group_count(level - 1);
    std::vector<WireBytes> of(children);
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      const Rank r{static_cast<int>(rank)};
      WireBytes& group = of[level == 0 ? Index(r) : topology.Group(r, level - 1)];
      const WireBytes own = CountWireBytes(plans[rank], level);
      group.sent += own.sent;
      group.received += own.received;
    }
    int64_t busiest = 0;
    for (const WireBytes& group : of) busiest = std::max({busiest, group.sent, group.received});
    if (busiest == 0) continue;
    absl::Duration time = link.latency;
    if (link.bytes_per_second > 0) {
      time +=
          absl::Seconds(static_cast<double>(busiest) / static_cast<double>(link.bytes_per_second));
    }
    slowest = std::max(slowest, time);
  }
  return slowest;
}

}  // namespace strata
