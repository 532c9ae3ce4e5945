#include "runtime/engine.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kRecompute:
      return "recompute";
    case Phase::kEval:
      return "eval";
  }
  return "";
}

}  // namespace

void Engine::OnCall(EngineCall call, ReplyDone done) {
  STRATA_CHECK(core_->control.InLoop());
  const absl::Time now = core_->control.Now();
  if (calls_.empty() && idle_since_ != absl::InfinitePast()) {
    core_->trace.Add(Trace::Track::kApplication, Trace::Kind::kCompute, Trace::kNoUnit, idle_since_,
                     now);
  }
  PendingCall& pending = calls_.emplace_back(PendingCall{
      .call = std::move(call), .done = std::move(done), .begin = now, .id = next_id_++});
  const absl::Status status = Begin(pending.call);
  if (!status.ok()) {
    PendingCall refused = std::move(calls_.back());
    calls_.pop_back();
    Reply(refused, status);
    if (IsFatal(status)) Fail(status);
    return;
  }
  const uint64_t id = pending.id;
  Progress();
  if (!calls_.empty() && calls_.back().id == id) Wait(calls_.back());
}

// The caller's mistakes leave everything as it was.
bool Engine::IsFatal(const absl::Status& status) const {
  return status.code() != absl::StatusCode::kInvalidArgument &&
         status.code() != absl::StatusCode::kFailedPrecondition;
}

absl::Status Engine::Begin(const EngineCall& call) {
  using Kind = EngineCall::Kind;
  const bool names_unit =
      call.kind == Kind::kAcquire || call.kind == Kind::kRelease || call.kind == Kind::kReduce;
  const int units = static_cast<int>(core_->units.size());
  if (names_unit && (Index(call.unit) < 0 || Index(call.unit) >= units)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unit ", Index(call.unit), " does not exist: there are ", units, " units"));
  }
  if (!core_->failure.ok()) return Annotate(core_->failure, What(call));
  switch (call.kind) {
    case Kind::kAgree:
      core_->step = 0;
      agreement_.Start(gradients_.ExchangeNumber(0), gradients_.ExchangeNumber(1), [this] {
        core_->step = 1;
        step_begin_ = core_->control.Now();
        agreed_ = true;
        Progress();
      });
      return absl::OkStatus();
    case Kind::kAcquire:
      return Acquire(call.unit, call.phase);
    case Kind::kRelease:
      return Release(call.unit);
    case Kind::kReduce:
      return Reduce(call.unit);
    case Kind::kEndStep:
      return EndStep(call.input);
    case Kind::kFlush:
      flush_state_ = FlushState::kDraining;
      return CheckNothingHeld("Flush");
    case Kind::kDigest:
      STRATA_RETURN_IF_ERROR(CheckNothingHeld("the digest of parameters"));
      digest_.Start([this, id = calls_.back().id](std::string digest) {
        for (PendingCall& pending : calls_) {
          if (pending.id != id) continue;
          PendingCall ended = std::move(pending);
          std::erase_if(calls_, [id](const PendingCall& c) { return c.id == id; });
          Reply(ended, EngineReply{.digest = std::move(digest)});
          return;
        }
      });
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Engine::Acquire(UnitId unit, Phase phase) {
  actions_.clear();
  STRATA_RETURN_IF_ERROR(
      Annotate(scheduler_.On({.kind = SchedulerCall::Kind::kAcquire, .unit = unit, .phase = phase},
                             actions_),
               core_->Name(unit)));
  holds_[Index(unit)].phases.push_back(phase);
  gathers_.Apply(actions_);
  if (phase != Phase::kBackward || gradients_.Lent(unit) || gradients_.Wanted(unit)) {
    return absl::OkStatus();
  }
  gradients_.Want(unit);
  return gradients_.CheckNotStuck(unit);
}

absl::Status Engine::Release(UnitId unit) {
  std::vector<Phase>& phases = holds_[Index(unit)].phases;
  actions_.clear();
  STRATA_RETURN_IF_ERROR(
      Annotate(scheduler_.On({.kind = SchedulerCall::Kind::kRelease, .unit = unit}, actions_),
               core_->Name(unit)));
  const Phase phase = phases.back();
  phases.pop_back();
  if (phase == Phase::kBackward &&
      std::find(phases.begin(), phases.end(), Phase::kBackward) == phases.end()) {
    gradients_.Discard(unit);
  }
  if (phases.empty() && core_->gathered()) gathers_.Release(unit);
  gathers_.Apply(actions_);
  return absl::OkStatus();
}

absl::Status Engine::Reduce(UnitId unit) {
  STRATA_RETURN_IF_ERROR(gradients_.Reduce(unit));
  return absl::OkStatus();
}

absl::Status Engine::CheckNothingHeld(absl::string_view call) const {
  for (size_t u = 0; u < holds_.size(); ++u) {
    if (holds_[u].phases.empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(call, " while ", core_->Name(UnitId(u)), " is held: release it first"));
  }
  return absl::OkStatus();
}

absl::Status Engine::EndStep(const StepInput& input) {
  STRATA_RETURN_IF_ERROR(CheckNothingHeld("EndStep"));
  return boundary_.Begin(input);
}

std::optional<absl::StatusOr<EngineReply>> Engine::TryEnd(const PendingCall& pending) {
  using Kind = EngineCall::Kind;
  const UnitId unit = pending.call.unit;
  switch (pending.call.kind) {
    case Kind::kAgree:
      if (!agreed_) return std::nullopt;
      return EngineReply{};
    case Kind::kAcquire: {
      const bool backward = pending.call.phase == Phase::kBackward;
      if (!gathers_.Ready(unit) || (backward && gradients_.Wanted(unit))) return std::nullopt;
      UnitView view{.parameters = gathers_.Address(unit)};
      if (backward) view.gradients = gradients_.Address(unit);
      return EngineReply{.view = view};
    }
    case Kind::kRelease:
    case Kind::kReduce:
      return EngineReply{};
    case Kind::kEndStep:
      if (!boundary_.done() || !core_->meter.Final(core_->step - 2)) return std::nullopt;
      return EndOfStep(pending);
    case Kind::kFlush:
      return TryFlush();
    case Kind::kDigest:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<EngineReply> Engine::TryFlush() {
  const int64_t step = core_->step - 1;
  if (flush_state_ == FlushState::kDraining && gathers_.idle() && core_->meter.Final(step)) {
    flush_state_ = FlushState::kTelling;
    flush_bytes_.Start(gradients_.ExchangeNumber(3), step, [this] {
      flush_state_ = FlushState::kTold;
      Progress();
    });
  }
  if (flush_state_ != FlushState::kTold) return std::nullopt;
  return EngineReply{.report = core_->meter.Report(step)};
}

EngineReply Engine::EndOfStep(const PendingCall& pending) {
  const int64_t step = core_->step - 1;
  const absl::Time now = core_->control.Now();
  StepMeter& meter = core_->meter;
  // The exchanges cross every level: their time counts for the outermost one.
  const int outermost = core_->topology.level_count() - 1;
  const absl::Time reduced = std::max(pending.begin, boundary_.reduced());
  meter.Exposed(step, pending.level, reduced - pending.begin);
  meter.Exposed(step, outermost, boundary_.decided() - reduced);
  meter.Blocked(step, now - pending.begin);
  meter.Close(step, step_begin_, now, boundary_.busy());
  step_begin_ = now;
  boundary_.Reset();
  EngineReply reply;
  if (step > 1) reply.report = meter.Report(step - 1);
  if (step == 1) reply.report.step = 0;
  return reply;
}

void Engine::Progress() {
  if (in_progress_ || !core_->failure.ok()) return;
  in_progress_ = true;
  boundary_.Advance();
  for (auto pending = calls_.begin(); pending != calls_.end() && core_->failure.ok();) {
    std::optional<absl::StatusOr<EngineReply>> reply = TryEnd(*pending);
    if (!reply.has_value()) {
      ++pending;
      continue;
    }
    PendingCall ended = std::move(*pending);
    pending = calls_.erase(pending);
    Account(ended);
    Reply(ended, *std::move(reply));
  }
  in_progress_ = false;
}

void Engine::Account(const PendingCall& pending) {
  const absl::Time now = core_->control.Now();
  const auto add = [&](Trace::Kind kind, UnitId unit) {
    core_->trace.Add(Trace::Track::kApplication, kind, unit, pending.begin, now);
  };
  if (pending.call.kind == EngineCall::Kind::kEndStep) add(Trace::Kind::kEndStep, Trace::kNoUnit);
  if (pending.call.kind == EngineCall::Kind::kFlush) add(Trace::Kind::kFlush, Trace::kNoUnit);
  if (pending.call.kind != EngineCall::Kind::kAcquire) return;
  add(Trace::Kind::kAcquire, pending.call.unit);
  core_->meter.Blocked(core_->step, now - pending.begin);
  core_->meter.Exposed(core_->step, pending.level, now - pending.begin);
}

void Engine::Reply(PendingCall& pending, absl::StatusOr<EngineReply> reply) {
  if (pending.has_timer) core_->control.Cancel(pending.timer);
  idle_since_ = core_->control.Now();
  core_->control.Post([done = std::move(pending.done), reply = std::move(reply)]() mutable {
    std::move(done)(std::move(reply));
  });
}

std::optional<PendingOperation> Engine::WaitedFor(const EngineCall& call) const {
  switch (call.kind) {
    case EngineCall::Kind::kAcquire:
      if (!gathers_.Ready(call.unit)) return gathers_.Pending(call.unit);
      return gradients_.Pending();
    case EngineCall::Kind::kEndStep:
      return boundary_.Pending();
    case EngineCall::Kind::kFlush:
    case EngineCall::Kind::kDigest:
      return gathers_.Pending(std::nullopt);
    default:
      return std::nullopt;
  }
}

std::string Engine::What(const EngineCall& call) const {
  switch (call.kind) {
    case EngineCall::Kind::kAgree:
      return "agree on units";
    case EngineCall::Kind::kAcquire:
      return absl::StrCat("acquire ", core_->Name(call.unit), " for ", Name(call.phase));
    case EngineCall::Kind::kRelease:
      return "release " + core_->Name(call.unit);
    case EngineCall::Kind::kReduce:
      return "hand over gradients of " + core_->Name(call.unit);
    case EngineCall::Kind::kEndStep:
      return absl::StrCat("end step ", core_->step);
    case EngineCall::Kind::kFlush:
      return "flush";
    case EngineCall::Kind::kDigest:
      return "digest of parameters";
  }
  return "";
}

void Engine::Wait(PendingCall& pending) {
  const uint64_t id = pending.id;
  pending.has_timer = true;
  pending.timer =
      core_->control.PostAt(pending.begin + core_->options.timeout, [this, id] { OnDeadline(id); });
  const std::optional<PendingOperation> operation = WaitedFor(pending.call);
  if (!operation.has_value()) return;
  pending.level = operation->outermost;
  // Asked where the operation runs; until the answer is here, its plan's outermost level stands.
  const Lane& lane = operation->lane == LaneId::kGather ? core_->gather : core_->reduce;
  lane.loop->Post([this, id, runner = lane.runner, number = operation->operation] {
    core_->control.Post([this, id, level = runner->UnfinishedLevel(number)] {
      for (PendingCall& call : calls_) {
        if (call.id == id && level >= 0) call.level = level;
      }
    });
  });
}

void Engine::OnDeadline(uint64_t id) {
  const auto pending = std::find_if(calls_.begin(), calls_.end(),
                                    [id](const PendingCall& call) { return call.id == id; });
  if (pending == calls_.end()) return;
  pending->has_timer = false;
  const std::string after =
      absl::StrCat("no end after ", absl::FormatDuration(core_->options.timeout));
  const std::optional<PendingOperation> operation = WaitedFor(pending->call);
  if (!operation.has_value()) return Fail(absl::DeadlineExceededError(after));
  const Lane& lane = operation->lane == LaneId::kGather ? core_->gather : core_->reduce;
  lane.loop->Post([this, runner = lane.runner, operation = *operation, after] {
    core_->control.Post([this, operation, after, state = runner->Describe(operation.operation)] {
      Fail(absl::DeadlineExceededError(
          absl::StrCat(after, ": operation ", operation.operation, ": ",
                       operation.started ? state : "not started, this rank lacks memory for it")));
    });
  });
}

void Engine::Fail(absl::Status why) {
  if (!core_->failure.ok()) return;
  core_->failure = why;
  for (const Lane* lane : {&core_->gather, &core_->reduce}) {
    lane->loop->Post([runner = lane->runner, why] { runner->Abort(why); });
  }
  std::list<PendingCall> ended = std::move(calls_);
  calls_.clear();
  for (PendingCall& pending : ended) {
    std::string what = What(pending.call);
    const std::optional<PendingOperation> operation = WaitedFor(pending.call);
    if (operation.has_value()) absl::StrAppend(&what, ", waiting for ", operation->what);
    Reply(pending, Annotate(why, what));
  }
}

absl::Status Engine::WriteTrace(const std::string& path) const {
  std::vector<std::string> names;
  for (const Unit& unit : core_->units) names.push_back(unit.spec.name);
  return core_->trace.Write(path, Index(core_->self), names);
}

}  // namespace strata
