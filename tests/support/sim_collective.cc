#include "tests/support/sim_collective.h"

#include <algorithm>
#include <utility>

#include "tests/support/status_matchers.h"

namespace strata {

SimCollective::SimCollective(SimCluster& cluster, LaneOf lane,
                             std::vector<std::shared_ptr<const Plan>> plans,
                             const std::vector<std::vector<std::byte>>& inputs, int64_t page_bytes)
    : cluster_(cluster), lane_(lane), plans_(std::move(plans)) {
  for (size_t rank = 0; rank < plans_.size(); ++rank) {
    ranks_.push_back(
        std::make_unique<PerRank>(*plans_[rank], page_bytes, cluster.topology().level_count()));
    std::copy(inputs[rank].begin(), inputs[rank].end(), ranks_[rank]->memory.input().begin());
  }
}

void SimCollective::Start(const RunOptions& options) {
  for (int rank = 0; rank < cluster_.topology().size(); ++rank) {
    const Lane lane = (cluster_.*lane_)(Rank{rank});
    PerRank& own = *ranks_[rank];
    lane.loop->Post([lane, &own, plan = plans_[rank], options = RunOptions(options)]() mutable {
      options.moved = own.moved;
      lane.runner->Run(plan, own.memory.buffers(), options, [lane, &own](absl::Status status) {
        EXPECT_FALSE(own.result.has_value());
        EXPECT_TRUE(lane.loop->InLoop());
        own.result = std::move(status);
        own.end_time = lane.loop->Now();
      });
    });
  }
}

bool SimCollective::ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank->result.has_value(); });
}

void SimCollective::ExpectComplete() const {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    ASSERT_TRUE(ranks_[rank]->result.has_value()) << "rank " << rank;
    ASSERT_OK(*ranks_[rank]->result);
    for (int level = 0; level < cluster_.topology().level_count(); ++level) {
      WireBytes planned;
      for (const Step& step : plans_[rank]->steps) {
        if (step.level != level) continue;
        if (step.op == Op::kSend) planned.sent += step.src.bytes;
        if (step.op == Op::kRecv) planned.received += step.dst.bytes;
      }
      EXPECT_EQ(ranks_[rank]->moved[level].sent, planned.sent);
      EXPECT_EQ(ranks_[rank]->moved[level].received, planned.received);
    }
  }
}

}  // namespace strata
