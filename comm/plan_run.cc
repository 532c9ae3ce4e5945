#include "comm/plan_run.h"

#include <utility>

namespace strata {

PlanRun::PlanRun(std::shared_ptr<const Plan> plan_in, const PlanShape& shape_in)
    : plan(std::move(plan_in)),
      shape(shape_in),
      missing_dependencies(plan->steps.size()),
      states(plan->steps.size()),
      ready_sends(shape.sends.size()),
      credit_taken(shape.sends.size()),
      unfinished_transfers(shape.transfers.size()) {
  for (size_t level = 0; level < ready_sends.size(); ++level) {
    ready_sends[level].Reserve(shape.sends[level]);
  }
  ready_local.Reserve(shape.local_steps);
}

void PlanRun::Reset(const PlanBuffers& where, RunOptions how, Done at_end, uint64_t number) {
  buffers = where;
  options = std::move(how);
  done = std::move(at_end);
  sequence = number;
  deadline_timer.reset();
  missing_dependencies = shape.dependency_counts;
  std::fill(states.begin(), states.end(), StepState::kWaiting);
  for (ReadySteps& ready : ready_sends) ready.Clear();
  std::fill(credit_taken.begin(), credit_taken.end(), 0);
  ready_local.Clear();
  partial_step = -1;
  unfinished_transfers = shape.transfers;
  steps_done = 0;
  outstanding = 0;
}

std::span<std::byte> PlanRun::Bytes(const Slice& slice) const {
  if (slice.bytes == 0) return {};
  const PlanBuffer& buffer = slice.buffer == BufferId::kInput    ? buffers.input
                             : slice.buffer == BufferId::kOutput ? buffers.output
                                                                 : buffers.scratch;
  return {buffer.At(slice.offset), static_cast<size_t>(slice.bytes)};
}

}  // namespace strata
