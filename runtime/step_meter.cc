#include "runtime/step_meter.h"

#include <algorithm>

#include "kernels/status.h"

namespace strata {

StepMeter::StepMeter(const Topology& topology) : topology_(topology) {
  for (int64_t step = 0; step < kOpenSteps; ++step) Open(step);
  // Exchanges of no step, and operations before the first one, need no report.
  of(0).report.step = 0;
}

void StepMeter::Open(int64_t step) {
  StepState& state = of(step);
  STRATA_CHECK(state.open == 0);
  const auto levels = static_cast<size_t>(topology_.level_count());
  for (std::vector<WireBytes>& moved : state.moved) moved.assign(levels, {});
  state.planned.assign(levels, {});
  state.blocked = absl::ZeroDuration();
  state.report.levels.resize(levels);
  StepReport& report = state.report;
  for (size_t level = 0; level < levels; ++level) {
    report.levels[level] = {.name = topology_.levels()[level].name};
  }
  report.step = step;
  report.loss = report.norm_before_clip = report.norm_after_clip = 0;
  report.tokens = report.exchange_sent_bytes = report.peak_unit_bytes = 0;
  report.missed_prefetches = 0;
  report.skipped = false;
}

void StepMeter::Issue(int64_t step, const CountedPlan& plan) {
  StepState& state = of(step);
  ++state.open;
  for (size_t level = 0; level < plan.wire.size(); ++level) {
    state.planned[level].sent += plan.wire[level].sent;
    state.planned[level].received += plan.wire[level].received;
  }
}

void StepMeter::IssueExchange(int64_t step, const CountedPlan& plan) {
  StepState& state = of(step);
  ++state.open;
  for (const WireBytes& wire : plan.wire) state.report.exchange_sent_bytes += wire.sent;
}

void StepMeter::End(int64_t step) {
  STRATA_CHECK(of(step).open > 0);
  --of(step).open;
}

std::span<WireBytes> StepMeter::Moved(int64_t step, LaneId lane) {
  return of(step).moved[static_cast<size_t>(lane)];
}

void StepMeter::Exposed(int64_t step, int level, absl::Duration exposed) {
  if (level >= 0) of(step).report.levels[static_cast<size_t>(level)].exposed += exposed;
}

void StepMeter::Memory(int64_t step, int64_t used_bytes) {
  int64_t& peak = of(step).report.peak_unit_bytes;
  peak = std::max(peak, used_bytes);
}

void StepMeter::Close(int64_t step, absl::Time begin, absl::Time end,
                      std::span<const absl::Duration> busy) {
  StepState& state = of(step);
  state.report.duration = end - begin;
  state.report.compute = std::max(absl::ZeroDuration(), state.report.duration - state.blocked);
  for (size_t level = 0; level < busy.size(); ++level) {
    StepReport::PerLevel& of_level = state.report.levels[level];
    of_level.busy = std::min(busy[level], state.report.duration);
    const double ratio = of_level.busy > absl::ZeroDuration()
                             ? absl::FDivDuration(of_level.exposed, of_level.busy)
                             : 0;
    of_level.overlap = std::clamp(1 - ratio, 0.0, 1.0);
  }
}

StepReport StepMeter::Report(int64_t step) {
  StepState& state = of(step);
  STRATA_CHECK(state.open == 0);
  for (size_t level = 0; level < state.planned.size(); ++level) {
    StepReport::PerLevel& of_level = state.report.levels[level];
    of_level.planned_sent_bytes = state.planned[level].sent;
    of_level.planned_received_bytes = state.planned[level].received;
    of_level.sent_bytes = of_level.received_bytes = 0;
    for (const std::vector<WireBytes>& moved : state.moved) {
      of_level.sent_bytes += moved[level].sent;
      of_level.received_bytes += moved[level].received;
    }
  }
  return state.report;
}

}  // namespace strata
