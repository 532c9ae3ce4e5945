#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "runtime/buffer_pool.h"
#include "runtime/engine_core.h"
#include "scheduler/prefetch_scheduler.h"

namespace strata {

// Gathers and publishes on the gather lane. Operations are numbered in the order of the scheduler's
// actions, the same on all ranks; each carries a running hash of the order.
//
// [Note: Start and order] An operation starts when what it needs on this rank is there: pages of
// the pool, given in issue order; the end of the operations before it that write what it reads, or
// read what it writes: a unit's gathers and its publishes wait for each other; the unit's update.
// Ends so delay starts but never change the order of issue, and the oldest operation always has its
// pages: no two ranks can wait for each other. Control loop.
class GatherPath {
 public:
  explicit GatherPath(EngineCore& core) : core_(core), units_(core.units.size()) {}

  // Takes scratch for the plans. Before the first operation.
  absl::Status Allocate(ShardMemory& memory);

  void Apply(std::span<const SchedulerAction> actions);
  // The last hold of a gathered unit ended: its memory is free.
  void Release(UnitId unit);

  // Are the parameters at their address, as of the last update?
  bool Ready(UnitId unit) const;
  std::byte* Address(UnitId unit) const;
  // Nothing issued is unended: parameters' shards may change.
  bool idle() const { return operations_.empty(); }

  // Between an update's start and end nothing of the unit starts.
  void BeginUpdate(UnitId unit) { units_[Index(unit)].updating = true; }
  void EndUpdate(UnitId unit);

  // The operation that `unit` waits for, or the oldest one.
  std::optional<PendingOperation> Pending(std::optional<UnitId> unit) const;

  // For other collectives that go in the same order.
  uint32_t NextOperation(uint32_t kind);
  uint64_t sequence() const { return next_sequence_; }
  uint32_t order() const { return order_; }

 private:
  struct Operation {
    SchedulerAction::Kind kind{};
    UnitId unit{};
    uint32_t number = 0;
    uint32_t order = 0;
    uint64_t sequence = 0;
    int64_t step = 0;
    int scratch = BufferPool::kNone;
    std::optional<int> copy;  // of the unit's slot, once it has pages
    bool started = false, dropped = false;
    absl::Time begin;
  };
  using OperationList = std::list<Operation>;
  // One that was issued and is neither released nor dropped.
  struct Copy {
    Operation* gather = nullptr;  // unended
    int copy = 0;                 // of the unit's slot, once the gather has ended
  };
  struct UnitState {
    std::array<Copy, kUnitCopies> copies;  // in the order of use
    int count = 0;
    bool updating = false;
    int publishes = 0;  // unended
  };

  void Issue(const SchedulerAction& action);
  void Drop(UnitId unit);
  void Give(UnitId unit, const Copy& copy);
  void Map(UnitId unit);
  void Pump();
  bool TakePages(Operation& operation);
  const CountedPlan& PlanOf(const Operation& operation) const;
  bool MayStart(OperationList::const_iterator operation) const;
  void Start(OperationList::iterator operation);
  void OnEnd(OperationList::iterator operation, absl::Status status);
  std::string What(const Operation& operation) const;

  EngineCore& core_;
  std::vector<UnitState> units_;
  OperationList operations_;  // unended, in issue order
  BufferPool scratch_;
  uint64_t next_sequence_ = 0;
  uint32_t order_ = 0;
};

}  // namespace strata
