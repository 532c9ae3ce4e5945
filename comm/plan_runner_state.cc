#include "comm/plan_runner_state.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/status.h"

namespace strata {
namespace {

// Largest copy or reduce that holds the loop without letting other work in.
constexpr int64_t kTaskBytes = 1 << 20;
constexpr size_t kTaskSteps = 64;

// Peers named in a message.
constexpr size_t kNamedPeers = 8;

}  // namespace

PlanRunner::State::State(Loop& loop_in, Stream& stream_in, std::vector<Transport*> transports_in,
                         Options options_in)
    : loop(loop_in),
      stream(stream_in),
      transports(std::move(transports_in)),
      options(std::move(options_in)),
      levels_(transports.size()) {
  STRATA_CHECK(options.credit_bytes.size() == transports.size());
  for (size_t level = 0; level < levels_.size(); ++level) {
    STRATA_CHECK(options.credit_bytes[level] > 0);
  }
  pieces_.reserve(kTaskSteps);
  touched_.reserve(kTaskSteps);
}

PlanRun& PlanRunner::State::TakeRun(std::shared_ptr<const Plan> plan) {
  const Plan* key = plan.get();
  Shape& shape = shapes_.try_emplace(key, *plan, static_cast<int>(levels_.size())).first->second;
  if (shape.idle.empty()) {
    runs_.push_back(std::make_unique<PlanRun>(std::move(plan), shape.shape));
    runs_.back()->index = static_cast<uint32_t>(runs_.size() - 1);
    shape.idle.reserve(runs_.size());
    active_.reserve(runs_.size());
    return *runs_.back();
  }
  PlanRun& run = *shape.idle.back();
  shape.idle.pop_back();
  return run;
}

void PlanRunner::State::Start(std::shared_ptr<const Plan> plan, const PlanBuffers& buffers,
                              RunOptions how, Done done) {
  STRATA_CHECK(loop.InLoop());
  PlanRun& run = TakeRun(std::move(plan));
  if (how.priority == preferred_) how.priority = 0;
  run.Reset(buffers, std::move(how), std::move(done), next_sequence_++);
  active_.insert(std::upper_bound(active_.begin(), active_.end(), &run,
                                  [](const PlanRun* a, const PlanRun* b) { return a->Before(*b); }),
                 &run);
  if (!error_.ok() || run.plan->steps.empty()) return PostEnd(run);
  WatchDeadline(run);
  for (const int step : run.shape.initial) MakeReady(run, step);
  Pump();
}

void PlanRunner::State::Prefer(uint64_t priority) {
  STRATA_CHECK(loop.InLoop());
  preferred_ = priority;
  for (PlanRun* run : active_) {
    if (run->options.priority == priority) run->options.priority = 0;
  }
  std::sort(active_.begin(), active_.end(),
            [](const PlanRun* a, const PlanRun* b) { return a->Before(*b); });
  Pump();
}

void PlanRunner::State::WatchDeadline(PlanRun& run) {
  if (run.options.deadline == absl::InfiniteFuture()) return;
  const auto sequence = static_cast<uint32_t>(run.sequence);
  run.deadline_timer =
      loop.PostAt(run.options.deadline, [ticket = Ticket(*this, run.index, sequence)] {
        State& state = ticket.state();
        PlanRun& late = *state.runs_[ticket.run()];
        // A timer that fired while its run ended must not hit the next one.
        if (!late.deadline_timer || static_cast<uint32_t>(late.sequence) != ticket.step()) return;
        late.deadline_timer.reset();
        state.End(absl::DeadlineExceededError(
            absl::StrCat(late.options.what, ": ", state.Describe(late))));
      });
}

void PlanRunner::State::MakeReady(PlanRun& run, int step) {
  const Step& what = run.plan->steps[step];
  switch (what.op) {
    case Op::kRecv:
      return StartTransfer(run, step);
    case Op::kSend:
      return run.ready_sends[what.level].Push(step);
    case Op::kCopy:
    case Op::kReduce:
      return run.ready_local.Push(step);
  }
}

void PlanRunner::State::Pump() {
  if (!error_.ok()) return;
  // Outer levels are the slow ones: their wires are kept busy first.
  for (int level = static_cast<int>(levels_.size()); level-- > 0;) PumpSends(level);
  PumpLocal();
}

// [Note: Whose credits count] A send may end only when the peer has started the same run, and the
// peer may start it only when a run before it has ended. So a send counts against the credits what
// its own run and the runs before it have in flight, and nothing of later runs: sends of runs that
// the peer has not come to can not keep those it waits for from going. Where ranks start runs in
// different orders, they Prefer the same one.
void PlanRunner::State::PumpSends(int level) {
  int64_t taken = 0;
  for (PlanRun* run : active_) {
    taken += run->credit_taken[level];
    ReadySteps& ready = run->ready_sends[level];
    while (!ready.empty()) {
      const int64_t bytes = CreditOf(run->plan->steps[ready.first()]);
      // Whoever is first waits for credits, or large sends would starve behind small ones.
      if (taken + bytes > options.credit_bytes[level]) return;
      taken += bytes;
      run->credit_taken[level] += bytes;
      StartTransfer(*run, ready.Pop());
    }
  }
}

int64_t PlanRunner::State::CreditOf(const Step& send) const {
  return std::min(send.src.bytes, options.credit_bytes[send.level]);
}

void PlanRunner::State::StartTransfer(PlanRun& run, int step) {
  const Step& what = run.plan->steps[step];
  run.states[step] = PlanRun::StepState::kInFlight;
  ++run.outstanding;
  if (levels_[what.level].in_flight++ == 0) levels_[what.level].busy_since = loop.Now();
  const Tag tag{
      .operation = run.options.operation, .message = what.message, .order = run.options.order};
  if (what.op == Op::kSend) {
    transports[what.level]->Send(what.peer, tag, run.Bytes(what.src), TransferDone(run, step));
  } else {
    transports[what.level]->Recv(what.peer, tag, run.Bytes(what.dst), TransferDone(run, step));
  }
}

Done PlanRunner::State::TransferDone(PlanRun& run, int step) {
  return [ticket = Ticket(*this, run.index, static_cast<uint32_t>(step))](absl::Status status) {
    State& state = ticket.state();
    state.OnTransfer(*state.runs_[ticket.run()], static_cast<int>(ticket.step()),
                     std::move(status));
  };
}

void PlanRunner::State::OnTransfer(PlanRun& run, int step, absl::Status status) {
  const Step& what = run.plan->steps[step];
  Level& level = levels_[what.level];
  --run.outstanding;
  if (--level.in_flight == 0) level.counters.busy += loop.Now() - level.busy_since;
  if (what.op == Op::kSend) run.credit_taken[what.level] -= CreditOf(what);
  if (!status.ok()) {
    End(Annotate(status, absl::StrCat(run.options.what, ": level ", LevelName(what.level))));
    return MaybeFinish(run);
  }
  const int64_t sent = what.op == Op::kSend ? what.src.bytes : 0;
  const int64_t received = what.op == Op::kRecv ? what.dst.bytes : 0;
  level.counters.sent_bytes += sent;
  level.counters.received_bytes += received;
  if (!run.options.moved.empty()) {
    run.options.moved[what.level].sent += sent;
    run.options.moved[what.level].received += received;
  }
  --run.unfinished_transfers[what.level];
  Complete(run, step);
  Pump();
  MaybeFinish(run);
}

void PlanRunner::State::Complete(PlanRun& run, int step) {
  run.states[step] = PlanRun::StepState::kDone;
  ++run.steps_done;
  if (!error_.ok()) return;
  for (const int dependent : run.shape.DependentsOf(step)) {
    if (--run.missing_dependencies[dependent] == 0) MakeReady(run, dependent);
  }
}

void PlanRunner::State::PumpLocal() {
  if (!pieces_.empty()) return;
  int64_t room = kTaskBytes;
  while (room > 0 && pieces_.size() < kTaskSteps) {
    const auto next = std::find_if(active_.begin(), active_.end(),
                                   [](const PlanRun* run) { return run->HasLocal(); });
    if (next == active_.end() || !LaunchPiece(**next, room)) break;
    room -= pieces_.back().bytes;
  }
  if (pieces_.empty()) return;
  stream.Notify(
      [ticket = Ticket(*this, 0, 0)](absl::Status status) { ticket.state().OnLocal(status); });
}

// Launches the next local work of `run`, cut at kTaskBytes. False if it does not fit into `room`
// and has to wait for the next task.
bool PlanRunner::State::LaunchPiece(PlanRun& run, int64_t room) {
  const int step = run.partial_step >= 0 ? run.partial_step : run.ready_local.first();
  const Step& what = run.plan->steps[step];
  const int64_t from = run.partial_step >= 0 ? run.partial_bytes : 0;
  const int64_t bytes = std::min(what.dst.bytes - from, kTaskBytes);
  if (bytes > room) return false;
  if (run.partial_step < 0) run.ready_local.Pop();
  const bool last = from + bytes == what.dst.bytes;
  run.partial_step = last ? -1 : step;
  run.partial_bytes = from + bytes;
  run.states[step] = PlanRun::StepState::kInFlight;
  ++run.outstanding;
  pieces_.push_back({&run, step, bytes, last});
  if (bytes == 0) return true;
  std::byte* dst = run.Bytes(what.dst).data() + from;
  const std::byte* src = run.Bytes(what.src).data() + from;
  if (what.op == Op::kCopy) {
    stream.Launch(CopyCall{.dst = dst, .src = src, .bytes = bytes});
  } else {
    stream.Launch(AddCall{.dtype = run.plan->dtype,
                          .dst = dst,
                          .a = src,
                          .b = run.Bytes(what.other).data() + from,
                          .elements = bytes / SizeOf(run.plan->dtype)});
  }
  return true;
}

void PlanRunner::State::OnLocal(const absl::Status& status) {
  touched_.clear();
  for (const Piece& piece : pieces_) {
    --piece.run->outstanding;
    touched_.push_back(piece.run);
    if (status.ok() && piece.last) Complete(*piece.run, piece.step);
  }
  if (!status.ok()) End(Annotate(status, pieces_.front().run->options.what));
  pieces_.clear();
  Pump();
  // Not by address: what ends first must be the same in every process.
  std::sort(touched_.begin(), touched_.end(),
            [](const PlanRun* a, const PlanRun* b) { return a->Before(*b); });
  const auto end = std::unique(touched_.begin(), touched_.end());
  // A Done may start runs, but their local work ends in a later task, so `touched_` stays as it is.
  for (auto run = touched_.begin(); run != end; ++run) MaybeFinish(**run);
}

void PlanRunner::State::PostEnd(PlanRun& run) {
  ++run.outstanding;
  loop.Post([ticket = Ticket(*this, run.index, 0)] {
    State& state = ticket.state();
    PlanRun& ended = *state.runs_[ticket.run()];
    --ended.outstanding;
    state.MaybeFinish(ended);
  });
}

void PlanRunner::State::End(absl::Status why) {
  STRATA_CHECK(!why.ok());
  if (!error_.ok()) return;
  error_ = why;
  for (PlanRun* run : active_) {
    if (run->outstanding == 0) PostEnd(*run);
  }
  for (size_t level = 0; level < transports.size(); ++level) {
    const auto end = transports.begin() + static_cast<std::ptrdiff_t>(level);
    if (std::find(transports.begin(), end, transports[level]) == end) transports[level]->Abort(why);
  }
}

void PlanRunner::State::MaybeFinish(PlanRun& run) {
  if (run.outstanding > 0) return;
  if (error_.ok() && run.steps_done < static_cast<int>(run.plan->steps.size())) return;
  const auto place = std::find(active_.begin(), active_.end(), &run);
  if (place == active_.end()) return;
  active_.erase(place);
  if (run.deadline_timer) loop.Cancel(*std::exchange(run.deadline_timer, std::nullopt));
  Done done = std::move(run.done);
  shapes_.at(run.plan.get()).idle.push_back(&run);
  std::move(done)(error_);
}

void PlanRunner::State::Orphan() {
  if (error_.ok()) error_ = absl::CancelledError("the lane was closed");
}

LevelCounters PlanRunner::State::Counters(int index) const {
  const Level& level = levels_[index];
  LevelCounters counters = level.counters;
  if (level.in_flight > 0) counters.busy += loop.Now() - level.busy_since;
  return counters;
}

const PlanRun* PlanRunner::State::Find(uint32_t operation) const {
  const auto found = std::find_if(active_.begin(), active_.end(), [operation](const PlanRun* run) {
    return run->options.operation == operation;
  });
  return found == active_.end() ? nullptr : *found;
}

std::string PlanRunner::State::LevelName(int level) const {
  return options.level_names.empty() ? absl::StrCat(level) : options.level_names[level];
}

std::string PlanRunner::State::Describe(const PlanRun& run) const {
  std::vector<std::string> peers;
  for (size_t step = 0; step < run.states.size(); ++step) {
    const Step& what = run.plan->steps[step];
    if (run.states[step] != PlanRun::StepState::kInFlight) continue;
    if (what.op != Op::kSend && what.op != Op::kRecv) continue;
    std::string peer = absl::StrCat(
        options.rank_name ? options.rank_name(what.peer) : absl::StrCat("rank ", Index(what.peer)),
        " (level ", LevelName(what.level), ")");
    if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
  const size_t unnamed = peers.size() - std::min(peers.size(), kNamedPeers);
  peers.resize(peers.size() - unnamed);
  if (unnamed > 0) peers.push_back(absl::StrCat(unnamed, " more"));
  return absl::StrCat("operation ", run.options.operation, ": ",
                      peers.empty() ? "no transfer outstanding"
                                    : absl::StrCat("no progress from ", absl::StrJoin(peers, ", ")),
                      "; ", run.steps_done, " of ", run.plan->steps.size(), " steps done");
}

}  // namespace strata
