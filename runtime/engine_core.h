#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/lane.h"
#include "comm/topology.h"
#include "runtime/arena.h"
#include "runtime/engine_options.h"
#include "runtime/step_meter.h"
#include "runtime/trace.h"
#include "runtime/unit_plans.h"
#include "runtime/unit_table.h"

namespace strata {

// An operation that something waits for: where to ask how far it is.
struct PendingOperation {
  LaneId lane{};
  uint32_t operation = 0;
  int outermost = -1;  // level of its plan
  std::string what;    // `gather unit "h.7"`
  bool started = false;
};

// What the parts of one Engine share. Everything here lives on the control loop.
struct EngineCore {
  Loop& control;
  const Lane gather, reduce;
  const Topology& topology;
  const Rank self;
  const EngineOptions& options;
  std::vector<Unit> units;
  std::vector<std::shared_ptr<const UnitPlans>> plans;  // by unit
  std::unique_ptr<UnitArena> arena;
  int64_t page_bytes = 0;       // of unit memory
  std::byte* zeros = nullptr;   // at least kPieceBytes and one zero page of them
  int64_t zero_page_bytes = 0;  // a multiple of the plans' chunk
  StepMeter meter;
  Trace trace;

  int64_t step = 1;                        // the one being worked on
  absl::Status failure;                    // the first terminal reason
  std::function<void(absl::Status)> fail;  // records it and ends everything
  std::function<void()> progress;          // something ended: look whether waiting calls can end

  // What was given to the lanes and refers to the engine until it has ended, here.
  int64_t on_lanes = 0;
  Done Counted(Done ended) {
    ++on_lanes;
    return [this, ended = std::move(ended)](absl::Status status) mutable {
      --on_lanes;
      std::move(ended)(std::move(status));
    };
  }

  // Arena slots.
  int ParameterSlot(UnitId unit) const { return Index(unit); }
  int GradientSlot(UnitId unit) const { return static_cast<int>(units.size()) + Index(unit); }
  static constexpr int kParameterSection = 0, kGradientSection = 1;

  // Kernels work on pieces of at most this many bytes of their widest operand.
  static constexpr int64_t kPieceBytes = 1 << 20;

  // Is a unit's full copy gathered when needed? Else it is always at its address.
  bool gathered() const { return !options.layout.parameters.empty(); }
  bool published() const { return !(options.layout.parameters == options.layout.optimizer); }

  std::string Name(UnitId unit) const { return "unit \"" + units[Index(unit)].spec.name + "\""; }
};

}  // namespace strata
