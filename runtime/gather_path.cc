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
    STRATA_CHECK(unit.count < kUnitCopies);
    unit.copies[unit.count++] = {.gather = &operations_.back()};
  } else {
    ++unit.publishes;
  }
}

// The copy that is used last: no one has seen it, or there is another.
void GatherPath::Drop(UnitId id) {
  UnitState& unit = units_[Index(id)];
  Give(id, unit.copies[--unit.count]);
  if (unit.count == 0) core_.arena->Unmap(core_.ParameterSlot(id));
}

// The copy's memory, at once or when its gather has ended: the others may be in it already.
void GatherPath::Give(UnitId id, const Copy& copy) {
  if (copy.gather != nullptr) {
    copy.gather->dropped = true;
  } else {
    core_.arena->Free(core_.ParameterSlot(id), copy.copy);
  }
}

void GatherPath::Release(UnitId id) {
  UnitState& unit = units_[Index(id)];
  core_.arena->Unmap(core_.ParameterSlot(id));
  Give(id, unit.copies[0]);
  std::move(unit.copies.begin() + 1, unit.copies.begin() + unit.count--, unit.copies.begin());
  Map(id);
  Pump();
}

// Shows the application the unit's next copy, while its bytes may still be on their way.
void GatherPath::Map(UnitId id) {
  const UnitState& unit = units_[Index(id)];
  if (unit.count == 0) return;
  const Copy& next = unit.copies[0];
  if (next.gather != nullptr && !next.gather->started) return;
  core_.arena->Map(core_.ParameterSlot(id),
                   next.gather != nullptr ? *next.gather->copy : next.copy);
}

void GatherPath::EndUpdate(UnitId unit) {
  units_[Index(unit)].updating = false;
  Pump();
}

const CountedPlan& GatherPath::PlanOf(const Operation& operation) const {
  const UnitPlans& plans = *core_.plans[Index(operation.unit)];
  return operation.kind == SchedulerAction::Kind::kGather ? plans.gather : plans.publish;
}

bool GatherPath::MayStart(OperationList::const_iterator operation) const {
  if (units_[Index(operation->unit)].updating) return false;
  return std::none_of(operations_.begin(), operation, [&](const Operation& earlier) {
    const bool both_read = earlier.kind == SchedulerAction::Kind::kGather &&
                           operation->kind == SchedulerAction::Kind::kGather;
    return earlier.unit == operation->unit && !both_read;
  });
}

bool GatherPath::TakePages(Operation& operation) {
  operation.copy = core_.arena->TryReserve(core_.ParameterSlot(operation.unit));
  if (operation.copy) core_.meter.Memory(core_.step, core_.arena->used_bytes());
  return operation.copy.has_value();
}

void GatherPath::Pump() {
  if (!core_.failure.ok()) return;
  bool pages_left = true, scratch_left = true;
  for (auto operation = operations_.begin(); operation != operations_.end(); ++operation) {
    if (operation->started) continue;
    const bool gather = operation->kind == SchedulerAction::Kind::kGather;
    if (gather && !operation->copy) pages_left = pages_left && TakePages(*operation);
    if (operation->scratch == BufferPool::kNone && PlanOf(*operation).plan->scratch_bytes > 0) {
      if (scratch_left) operation->scratch = scratch_.Take();
      scratch_left = operation->scratch != BufferPool::kNone;
      if (!scratch_left) continue;
    }
    if (gather && !operation->copy) continue;
    if (MayStart(operation)) Start(operation);
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
      gather ? PlanBuffers{.input = unit.parameters.View(),
                           .output = core_.arena->Pages(slot, *operation->copy)}
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
  if (units_[Index(operation->unit)].copies[0].gather == &*operation) Map(operation->unit);
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
    core_.arena->Free(core_.ParameterSlot(id), *operation->copy);
  } else {
    core_.arena->Arrived(core_.ParameterSlot(id), *operation->copy);
    const auto copy = std::find_if(unit.copies.begin(), unit.copies.begin() + unit.count,
                                   [&](const Copy& c) { return c.gather == &*operation; });
    *copy = {.copy = *operation->copy};
  }
  operations_.erase(operation);
  Pump();
  core_.progress();
}

bool GatherPath::Ready(UnitId id) const {
  const UnitState& unit = units_[Index(id)];
  return core_.gathered() ? unit.count > 0 && unit.copies[0].gather == nullptr
                          : unit.publishes == 0 && !unit.updating;
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
