#include "comm/plan_runner.h"

#include <utility>

#include "comm/plan_runner_state.h"

namespace strata {

PlanRunner::PlanRunner(Loop& loop, Stream& stream, std::vector<Transport*> transports,
                       Options options)
    : state_(new State(loop, stream, std::move(transports), std::move(options))) {}

PlanRunner::~PlanRunner() {
  if (state_->loop.InLoop()) {
    state_->End(absl::CancelledError("the lane was closed"));
  } else {
    state_->Orphan();
  }
  state_->Release();
}

void PlanRunner::Run(std::shared_ptr<const Plan> plan, const PlanBuffers& buffers,
                     RunOptions options, Done done) {
  state_->Start(std::move(plan), buffers, std::move(options), std::move(done));
}

void PlanRunner::Prefer(uint64_t priority) { state_->Prefer(priority); }

void PlanRunner::Abort(absl::Status why) { state_->End(std::move(why)); }

LevelCounters PlanRunner::counters(int level) const { return state_->Counters(level); }

int PlanRunner::UnfinishedLevel(uint32_t operation) const {
  const PlanRun* run = state_->Find(operation);
  if (run == nullptr) return -1;
  int level = static_cast<int>(run->unfinished_transfers.size()) - 1;
  while (level >= 0 && run->unfinished_transfers[level] == 0) --level;
  return level;
}

std::string PlanRunner::Describe(uint32_t operation) const {
  const PlanRun* run = state_->Find(operation);
  return run == nullptr ? "no such operation" : state_->Describe(*run);
}

}  // namespace strata
