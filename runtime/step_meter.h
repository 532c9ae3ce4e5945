#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "comm/plan.h"
#include "comm/plan_runner.h"
#include "comm/topology.h"
#include "runtime/step_report.h"
#include "runtime/unit_plans.h"

namespace strata {

enum class LaneId : uint8_t { kGather, kReduce };

// Counts what a step moves and how long it makes the application wait. Operations count for the
// step that issued them, so two steps are open at a time while a publish goes on. Control loop,
// except for the spans that Moved lends to the lanes.
class StepMeter {
 public:
  explicit StepMeter(const Topology& topology);

  // An operation of `step` is issued; its plan's bytes are promised. Each ends once.
  void Issue(int64_t step, const CountedPlan& plan);
  void IssueExchange(int64_t step, const CountedPlan& plan);
  void End(int64_t step);
  // Has everything of `step` ended?
  bool Final(int64_t step) const { return of(step).open == 0; }

  // Where the runs of one lane for `step` count what they move.
  std::span<WireBytes> Moved(int64_t step, LaneId lane);

  // The application was blocked; `level` is what it waited for, -1 for none.
  void Blocked(int64_t step, absl::Duration blocked) { of(step).blocked += blocked; }
  void Exposed(int64_t step, int level, absl::Duration exposed);
  void Memory(int64_t step, int64_t used_bytes);

  // The step's results; `begin` to `end` is its duration, `busy` per level since the step before.
  StepReport& report(int64_t step) { return of(step).report; }
  void Close(int64_t step, absl::Time begin, absl::Time end, std::span<const absl::Duration> busy);

  // Of a closed, final step.
  StepReport Report(int64_t step);
  // Clears what was counted of the step before the one before.
  void Open(int64_t step);

 private:
  struct StepState {
    int64_t open = 0;
    std::array<std::vector<WireBytes>, 2> moved;  // per lane and level
    std::vector<WireBytes> planned;               // per level
    absl::Duration blocked;
    StepReport report;
  };
  static constexpr int64_t kOpenSteps = 3;

  StepState& of(int64_t step) { return states_[step % kOpenSteps]; }
  const StepState& of(int64_t step) const { return states_[step % kOpenSteps]; }

  const Topology& topology_;
  std::array<StepState, kOpenSteps> states_;
};

}  // namespace strata
