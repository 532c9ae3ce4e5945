#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/loop.h"
#include "comm/plan_runner.h"
#include "comm/plan_shape.h"

namespace strata {

// Steps that are ready, lowest index first. Allocates nothing after Reserve.
class ReadySteps {
 public:
  void Reserve(int count) { heap_.reserve(count); }
  void Clear() { heap_.clear(); }
  bool empty() const { return heap_.empty(); }
  int first() const { return heap_.front(); }
  void Push(int step) {
    heap_.push_back(step);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  int Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const int step = heap_.back();
    heap_.pop_back();
    return step;
  }

 private:
  std::vector<int> heap_;
};

// One plan on its way: what is done, in flight and ready. Used again by later runs of the plan, so
// that those allocate nothing.
struct PlanRun {
  enum class StepState : uint8_t { kWaiting, kInFlight, kDone };

  PlanRun(std::shared_ptr<const Plan> plan, const PlanShape& shape);

  // Begins anew.
  void Reset(const PlanBuffers& where, RunOptions how, Done at_end, uint64_t number);

  // Nothing for zero bytes, whose offset may be the end of the buffer.
  std::span<std::byte> Bytes(const Slice& slice) const;

  bool HasLocal() const { return partial_step >= 0 || !ready_local.empty(); }
  bool Before(const PlanRun& other) const {
    return options.priority != other.options.priority ? options.priority < other.options.priority
                                                      : sequence < other.sequence;
  }

  const std::shared_ptr<const Plan> plan;
  const PlanShape& shape;
  PlanBuffers buffers;
  RunOptions options;
  Done done;
  uint64_t sequence = 0;  // in the order of Run
  uint32_t index = 0;     // among the runner's runs
  std::optional<TimerId> deadline_timer;
  std::vector<int> missing_dependencies;  // per step
  std::vector<StepState> states;          // per step
  std::vector<ReadySteps> ready_sends;    // per level
  std::vector<int64_t> credit_taken;      // per level, by sends in flight
  ReadySteps ready_local;
  int partial_step = -1;  // a local step of which some bytes are done, goes first
  int64_t partial_bytes = 0;
  std::vector<int> unfinished_transfers;  // per level
  int steps_done = 0;
  int outstanding = 0;  // callbacks that will come
};

}  // namespace strata
