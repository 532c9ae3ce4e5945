#include "scheduler/prefetch_scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "scheduler/access_record.h"

namespace strata {

// [Note: Order and the window]
// A gather brings a *copy* of a unit, whose memory is promised from the moment the gather is issued
// to the Release that ends its last hold. Until it is acquired the copy is *in flight*, whether or
// not its bytes have arrived: only calls change this state, so ranks that make the same calls issue
// the same operations.
//
// A unit that is used twice is gathered twice: what to keep is configuration, not a matter of
// timing. The second copy may be in flight while the first is held or in flight as well, so that
// the link is not idle where a forward turns into its backward and the unit used last is used next.
//
// The window begins at the record's cursor and ends at the first access whose unit does not fit
// what is left of the budget, or has two copies for nearer accesses. Nothing is issued past that
// point, so gathers are issued in the record's order.
//
// An acquire that finds its unit neither held nor in flight is gathered on demand. Room for it is
// made by dropping copies in flight: first those that the cursor has passed over, then the one
// needed last. Passed-over copies otherwise keep their memory until the next acquire that is in
// order: two units that changed places then cost nothing.
class PrefetchScheduler::State {
 public:
  using Actions = std::vector<SchedulerAction>;

  State(std::vector<ScheduledUnit> units, int64_t budget_bytes);

  absl::Status Acquire(UnitId id, Phase phase, Actions& actions);
  absl::Status Release(UnitId id, Actions& actions);
  absl::Status EndStep(Actions& actions);

  absl::Status CheckExists(UnitId id) const;
  int64_t peak_bytes() const { return peak_bytes_; }
  int64_t missed() const { return missed_; }
  int64_t dropped() const { return dropped_; }

 private:
  struct Unit {
    ScheduledUnit spec;
    int holds = 0;
    int in_flight = 0;    // copies
    int passed_over = 0;  // of these, for accesses that the cursor has passed
    bool held_by_eval = false;
    bool publish_due = false;  // in EndStep: its publish is not issued yet
    int claims = 0;            // accesses that found or issued a copy, in `claims_walk`
    uint64_t claims_walk = 0;

    int copies() const { return (holds > 0 ? 1 : 0) + in_flight; }
  };
  enum class Window { kGoesOn, kEnds };

  Unit& At(UnitId id) { return units_[Index(id)]; }
  void BeginWalk();
  bool Claim(Unit& unit);
  Window Visit(const Access& access, Actions& actions);
  void IssueWindow(Actions& actions);
  void Gather(UnitId id, Actions& actions);
  void Publish(UnitId id, Actions& actions);
  void Drop(UnitId id, Actions& actions);
  void DropPassedOver(Actions& actions);
  void MakeRoom(int64_t bytes, Actions& actions);
  UnitId FarthestInFlight();

  std::vector<Unit> units_;
  AccessRecord record_;
  const int64_t budget_bytes_;
  int64_t promised_bytes_ = 0;
  int64_t held_bytes_ = 0;  // of promised_bytes_
  int64_t peak_bytes_ = 0;
  int64_t missed_ = 0;
  int64_t dropped_ = 0;
  int gathered_units_ = 0;
  uint64_t walk_ = 0;
  int claims_ = 0;  // in this walk
};

PrefetchScheduler::State::State(std::vector<ScheduledUnit> units, int64_t budget_bytes)
    : budget_bytes_(budget_bytes) {
  units_.reserve(units.size());
  for (const ScheduledUnit& spec : units) {
    units_.push_back({.spec = spec});
    gathered_units_ += spec.gathered ? 1 : 0;
  }
  // Enough for forward, recompute and backward in five micro-steps.
  record_.Reserve(static_cast<int>(units.size()) * 15);
}

absl::Status PrefetchScheduler::State::CheckExists(UnitId id) const {
  if (Index(id) >= 0 && Index(id) < static_cast<int>(units_.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unit ", Index(id), " does not exist: there are ", units_.size(), " units"));
}

absl::Status PrefetchScheduler::State::Acquire(UnitId id, Phase phase, Actions& actions) {
  Unit& unit = At(id);
  if (unit.holds > 0) {
    ++unit.holds;
    return absl::OkStatus();
  }
  const int64_t bytes = unit.spec.gathered ? unit.spec.bytes : 0;
  if (held_bytes_ + bytes > budget_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("unit ", Index(id), " needs ", bytes,
                     " bytes of unit memory, but the units that are held "
                     "leave ",
                     budget_bytes_ - held_bytes_, " of ", budget_bytes_,
                     ": raise prefetch.bytes to at "
                     "least ",
                     held_bytes_ + bytes, " or hold fewer units at once"));
  }
  const bool in_flight = unit.in_flight > 0;
  if (in_flight) --unit.in_flight;
  unit.passed_over = std::min(unit.passed_over, unit.in_flight);
  unit.holds = 1;
  unit.held_by_eval = phase == Phase::kEval;
  const bool forecast = !unit.held_by_eval && record_.size() > 0;
  if (!unit.held_by_eval) {
    const AccessRecord::Match match = record_.Add({id, phase});
    for (int i = match.passed_first; i < match.passed_last; i = record_.Next(i + 1)) {
      Unit& passed = At(record_[i].unit);
      passed.passed_over = std::min(passed.passed_over + 1, passed.in_flight);
    }
    if (match.in_order) DropPassedOver(actions);
  }
  if (unit.spec.gathered && !in_flight) {
    MakeRoom(bytes, actions);
    Gather(id, actions);
    missed_ += forecast ? 1 : 0;
  }
  held_bytes_ += bytes;
  if (!unit.held_by_eval) IssueWindow(actions);
  return absl::OkStatus();
}

absl::Status PrefetchScheduler::State::Release(UnitId id, Actions& actions) {
  Unit& unit = At(id);
  if (unit.holds == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "unit ", Index(id), " is released but not held: each Release needs an Acquire before it"));
  }
  if (--unit.holds > 0) return absl::OkStatus();
  if (unit.spec.gathered) {
    promised_bytes_ -= unit.spec.bytes;
    held_bytes_ -= unit.spec.bytes;
  }
  // An evaluation has the budget to itself: what it takes from the training step would otherwise be
  // gathered again, and dropped again, after each of its uses.
  if (!unit.held_by_eval) IssueWindow(actions);
  return absl::OkStatus();
}

absl::Status PrefetchScheduler::State::EndStep(Actions& actions) {
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].holds == 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("EndStep while unit ", i,
                     " is held, which would keep parameters from before the step: "
                     "release it first"));
  }
  for (size_t i = 0; i < units_.size(); ++i) {
    units_[i].publish_due = units_[i].spec.published;
    while (units_[i].in_flight > 0) Drop(UnitId(i), actions);  // parameters from before the step
  }
  record_.EndStep();
  BeginWalk();
  Window window = Window::kGoesOn;
  for (int i = 0; i < record_.size(); ++i) {
    Publish(record_[i].unit, actions);
    if (window == Window::kGoesOn) window = Visit(record_[i], actions);
  }
  for (size_t i = 0; i < units_.size(); ++i) Publish(UnitId(i), actions);
  return absl::OkStatus();
}

void PrefetchScheduler::State::BeginWalk() {
  ++walk_;
  claims_ = 0;
}

// One access of this walk takes one copy in flight; false if none is left.
bool PrefetchScheduler::State::Claim(Unit& unit) {
  if (unit.claims_walk != walk_) unit.claims = 0;
  unit.claims_walk = walk_;
  if (unit.claims == unit.in_flight) return false;
  ++unit.claims;
  ++claims_;
  return true;
}

PrefetchScheduler::State::Window PrefetchScheduler::State::Visit(const Access& access,
                                                                 Actions& actions) {
  Unit& unit = At(access.unit);
  if (!unit.spec.gathered) return Window::kGoesOn;
  if (!Claim(unit)) {
    if (unit.copies() == kUnitCopies) return Window::kEnds;
    if (promised_bytes_ + unit.spec.bytes > budget_bytes_) return Window::kEnds;
    Gather(access.unit, actions);
    ++unit.in_flight;
    Claim(unit);
  }
  unit.passed_over = std::min(unit.passed_over, unit.in_flight - unit.claims);
  return Window::kGoesOn;
}

void PrefetchScheduler::State::IssueWindow(Actions& actions) {
  BeginWalk();
  int i = record_.cursor();
  while (i < record_.size() && claims_ < kUnitCopies * gathered_units_ &&
         Visit(record_[i], actions) == Window::kGoesOn) {
    i = record_.Next(i + 1);
  }
}

void PrefetchScheduler::State::Gather(UnitId id, Actions& actions) {
  promised_bytes_ += At(id).spec.bytes;
  STRATA_CHECK(promised_bytes_ <= budget_bytes_);
  peak_bytes_ = std::max(peak_bytes_, promised_bytes_);
  actions.push_back({SchedulerAction::Kind::kGather, id});
}

void PrefetchScheduler::State::Publish(UnitId id, Actions& actions) {
  if (!std::exchange(At(id).publish_due, false)) return;
  actions.push_back({SchedulerAction::Kind::kPublish, id});
}

void PrefetchScheduler::State::Drop(UnitId id, Actions& actions) {
  --At(id).in_flight;
  At(id).passed_over = std::max(At(id).passed_over - 1, 0);
  promised_bytes_ -= At(id).spec.bytes;
  ++dropped_;
  actions.push_back({SchedulerAction::Kind::kDrop, id});
}

void PrefetchScheduler::State::DropPassedOver(Actions& actions) {
  for (size_t i = 0; i < units_.size(); ++i) {
    while (units_[i].passed_over > 0) Drop(UnitId(i), actions);
  }
}

void PrefetchScheduler::State::MakeRoom(int64_t bytes, Actions& actions) {
  if (promised_bytes_ + bytes <= budget_bytes_) return;
  DropPassedOver(actions);
  while (promised_bytes_ + bytes > budget_bytes_) Drop(FarthestInFlight(), actions);
}

UnitId PrefetchScheduler::State::FarthestInFlight() {
  BeginWalk();
  UnitId farthest{-1};
  for (int i = record_.cursor(); i < record_.size(); i = record_.Next(i + 1)) {
    if (Claim(At(record_[i].unit))) farthest = record_[i].unit;
  }
  // A copy that is in flight but no longer expected at all is the farthest of all.
  for (size_t i = 0; i < units_.size(); ++i) {
    if (Claim(units_[i])) return UnitId(i);
  }
  STRATA_CHECK(Index(farthest) >= 0);
  return farthest;
}

absl::StatusOr<PrefetchScheduler> PrefetchScheduler::Create(std::vector<ScheduledUnit> units,
                                                            int64_t budget_bytes) {
  int largest = -1;
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i].bytes < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("unit ", i, " has ", units[i].bytes, " bytes: sizes are at least 0"));
    }
    if (!units[i].gathered) continue;
    if (largest < 0 || units[i].bytes > units[largest].bytes) largest = static_cast<int>(i);
  }
  // In halves, because twice a size may not be representable.
  if (largest >= 0 && units[largest].bytes > budget_bytes / 2) {
    return absl::ResourceExhaustedError(
        absl::StrCat("unit ", largest, " needs ", units[largest].bytes,
                     " bytes of unit memory, and the unit after "
                     "it as much again, but the budget is ",
                     budget_bytes,
                     " bytes: raise prefetch.bytes to at "
                     "least twice the largest unit, or use smaller units"));
  }
  return PrefetchScheduler(std::make_unique<State>(std::move(units), budget_bytes));
}

PrefetchScheduler::PrefetchScheduler(std::unique_ptr<State> state) : state_(std::move(state)) {}
PrefetchScheduler::PrefetchScheduler(PrefetchScheduler&&) = default;
PrefetchScheduler& PrefetchScheduler::operator=(PrefetchScheduler&&) = default;
PrefetchScheduler::~PrefetchScheduler() = default;

absl::Status PrefetchScheduler::On(const SchedulerCall& call,
                                   std::vector<SchedulerAction>& actions) {
  if (call.kind == SchedulerCall::Kind::kEndStep) return state_->EndStep(actions);
  STRATA_RETURN_IF_ERROR(state_->CheckExists(call.unit));
  return call.kind == SchedulerCall::Kind::kAcquire
             ? state_->Acquire(call.unit, call.phase, actions)
             : state_->Release(call.unit, actions);
}

int64_t PrefetchScheduler::peak_bytes() const { return state_->peak_bytes(); }
int64_t PrefetchScheduler::missed_prefetches() const { return state_->missed(); }
int64_t PrefetchScheduler::dropped_prefetches() const { return state_->dropped(); }

}  // namespace strata
