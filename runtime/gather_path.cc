#include "runtime/gather_path.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

// Operations on a lane wrap at what transports carry.
constexpr uint64_t kOperationMask = (1u << 20) - 1;
// So many operations that need scratch may be in flight: the next one's head overlaps the tail.
constexpr int kScratchBuffers = 3;

uint32_t Mix(uint32_t hash, uint32_t value) {
  uint64_t mixed = (static_cast<uint64_t>(hash) << 32 | value) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  return static_cast<uint32_t>(mixed * 0xbf58476d1ce4e5b9u >> 32);
}

}  // namespace

absl::Status GatherPath::Allocate(ShardMemory& memory) {
  int64_t scratch_bytes = 0;
  for (const std::shared_ptr<const UnitPlans>& plans : core_.plans) {
    for (const CountedPlan* plan : {&plans->gather, &plans->publish}) {
      if (*plan) scratch_bytes = std::max(scratch_bytes, plan->plan->scratch_bytes);
    }
  }
  return scratch_.Allocate(memory, scratch_bytes > 0 ? kScratchBuffers : 0, scratch_bytes,
                           "scratch of gathers");
}

uint32_t GatherPath::NextOperation(uint32_t kind) {
  order_ = Mix(order_, kind);
  return static_cast<uint32_t>(next_sequence_++ & kOperationMask);
}

void GatherPath::Apply(std::span<const SchedulerAction> actions) {
  for (const SchedulerAction& action : actions) {
    if (action.kind == SchedulerAction::Kind::kDrop) {
      Drop(action.unit);
    } else {
      Issue(action);
    }
  }
  Pump();
}

void GatherPath::Issue(const SchedulerAction& action) {
  const bool gather = action.kind == SchedulerAction::Kind::kGather;
  const uint32_t kind = 4 * static_cast<uint32_t>(Index(action.unit)) + (gather ? 1 : 2);
  Operation operation{.kind = action.kind, .unit = action.unit, .sequence = next_sequence_};
  operation.number = NextOperation(kind);
  operation.order = order_;
  // Publishes are issued when the step that they end has made way for the next.
  operation.step = gather ? core_.step : core_.step - 1;
  core_.meter.Issue(operation.step, PlanOf(operation));
  operations_.push_back(operation);
  UnitState& unit = units_[Index(action.unit)];
  if (gather) {
    STRATA_CHECK(unit.gather == nullptr && !unit.gathered);
    unit.gather = &operations_.back();
  } else {
    ++unit.publishes;
  }
}

void GatherPath::Drop(UnitId id) {
  UnitState& unit = units_[Index(id)];
  if (unit.gathered) {
    FreePages(id);
  } else if (unit.gather != nullptr) {
    // The others may be in it already: it runs to its end.
    unit.gather->dropped = true;
    unit.gather = nullptr;
  }
}

void GatherPath::Release(UnitId unit) {
  Drop(unit);
  Pump();
}

void GatherPath::FreePages(UnitId id) {
  units_[Index(id)].gathered = false;
  core_.arena->Unmap(core_.ParameterSlot(id));
  core_.arena->Free(core_.ParameterSlot(id));
}

void GatherPath::EndUpdate(UnitId unit) {
  units_[Index(unit)].updating = false;
  Pump();
}

const CountedPlan& GatherPath::PlanOf(const Operation& operation) const {
  const UnitPlans& plans = *core_.plans[Index(operation.unit)];
  return operation.kind == SchedulerAction::Kind::kGather ? plans.gather : plans.publish;
}

bool GatherPath::FirstOfUnit(OperationList::const_iterator operation) const {
  return std::none_of(operations_.begin(), operation,
                      [&](const Operation& earlier) { return earlier.unit == operation->unit; });
}

void GatherPath::Pump() {
  if (!core_.failure.ok()) return;
  bool pages_left = true, scratch_left = true;
  for (auto operation = operations_.begin(); operation != operations_.end(); ++operation) {
    if (operation->started) continue;
    const bool first = FirstOfUnit(operation);
    if (operation->kind == SchedulerAction::Kind::kGather && !operation->has_pages) {
      // A unit has one slot: the gather before this one may still be in it.
      pages_left =
          pages_left && first && core_.arena->TryReserve(core_.ParameterSlot(operation->unit));
      operation->has_pages = pages_left;
      if (pages_left) core_.meter.Memory(core_.step, core_.arena->used_bytes());
    }
    if (operation->scratch == BufferPool::kNone && PlanOf(*operation).plan->scratch_bytes > 0) {
      if (scratch_left) operation->scratch = scratch_.Take();
      scratch_left = operation->scratch != BufferPool::kNone;
      if (!scratch_left) continue;
    }
    if (operation->kind == SchedulerAction::Kind::kGather && !operation->has_pages) continue;
    if (first && !units_[Index(operation->unit)].updating) Start(operation);
  }
}

std::string GatherPath::What(const Operation& operation) const {
  const bool gather = operation.kind == SchedulerAction::Kind::kGather;
  return absl::StrCat(gather ? "gather " : "publish ", core_.Name(operation.unit));
}

void GatherPath::Start(OperationList::iterator operation) {
  operation->started = true;
  operation->begin = core_.control.Now();
  ++core_.on_lanes;
  const bool gather = operation->kind == SchedulerAction::Kind::kGather;
  const Unit& unit = core_.units[Index(operation->unit)];
  const int slot = core_.ParameterSlot(operation->unit);
  PlanBuffers buffers =
      gather ? PlanBuffers{.input = unit.parameters.View(), .output = core_.arena->Pages(slot)}
             : PlanBuffers{.input = unit.published.View(), .output = unit.parameters.View()};
  if (operation->scratch != BufferPool::kNone) buffers.scratch = scratch_.View(operation->scratch);
  RunOptions options{.what = What(*operation),
                     .operation = operation->number,
                     .order = operation->order,
                     .priority = operation->sequence,
                     .moved = core_.meter.Moved(operation->step, LaneId::kGather)};
  auto done = [this, operation](absl::Status status) {
    core_.control.Post([this, operation, status = std::move(status)] { OnEnd(operation, status); });
  };
  core_.gather.loop->Post([runner = core_.gather.runner, plan = PlanOf(*operation).plan, buffers,
                           options = std::move(options), done = std::move(done)]() mutable {
    runner->Run(std::move(plan), buffers, std::move(options), std::move(done));
  });
  // While bytes are on their way: the application then finds the view there.
  if (gather && !operation->dropped) core_.arena->Map(slot);
}

void GatherPath::OnEnd(OperationList::iterator operation, absl::Status status) {
  --core_.on_lanes;
  core_.meter.End(operation->step);
  if (operation->scratch != BufferPool::kNone) scratch_.Give(operation->scratch);
  if (!status.ok()) return core_.fail(std::move(status));
  const UnitId id = operation->unit;
  UnitState& unit = units_[Index(id)];
  const bool gather = operation->kind == SchedulerAction::Kind::kGather;
  core_.trace.Add(Trace::Track::kGatherLane, gather ? Trace::Kind::kGather : Trace::Kind::kPublish,
                  id, operation->begin, core_.control.Now());
  if (!gather) {
    --unit.publishes;
  } else if (operation->dropped) {
    FreePages(id);
  } else {
    unit.gathered = true;
    unit.gather = nullptr;
  }
  operations_.erase(operation);
  Pump();
  core_.progress();
}

bool GatherPath::Ready(UnitId id) const {
  const UnitState& unit = units_[Index(id)];
  return core_.gathered() ? unit.gathered : unit.publishes == 0 && !unit.updating;
}

std::byte* GatherPath::Address(UnitId unit) const {
  return core_.gathered() ? core_.arena->Address(core_.ParameterSlot(unit))
                          : core_.units[Index(unit)].parameters.base;
}

std::optional<PendingOperation> GatherPath::Pending(std::optional<UnitId> unit) const {
  const Operation* found = nullptr;
  for (const Operation& operation : operations_) {
    if (unit.has_value() && operation.unit != *unit) continue;
    found = &operation;
    break;
  }
  // It may itself wait for pages: then for whatever holds the oldest ones.
  if (found != nullptr && !found->started) found = &operations_.front();
  if (found == nullptr) return std::nullopt;
  return PendingOperation{.lane = LaneId::kGather,
                          .operation = found->number,
                          .outermost = PlanOf(*found).outermost,
                          .what = What(*found),
                          .started = found->started};
}

}  // namespace strata
