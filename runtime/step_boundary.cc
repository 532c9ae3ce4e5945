#include "runtime/step_boundary.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

constexpr uint16_t kRealBit = 0x8000;

// What a rank tells at the end of a step.
struct Record {
  NormSum::Wire norm;
  double loss;
  int64_t tokens;
};
static_assert(sizeof(Record) == NormSum::kWireBytes + 16);

}  // namespace

StepBoundary::StepBoundary(EngineCore& core, PrefetchScheduler& scheduler, GatherPath& gathers,
                           GradientPath& gradients)
    : core_(core),
      scheduler_(scheduler),
      gathers_(gathers),
      gradients_(gradients),
      optimizer_(core.options.optimizer, core.units.size()),
      joins_(core, static_cast<int64_t>(core.units.size() * sizeof(uint16_t))),
      record_(core, sizeof(Record)),
      node_bytes_(core),
      real_(core.units.size()),
      required_(core.units.size()) {
  const auto levels = static_cast<size_t>(core.topology.level_count());
  for (std::vector<absl::Duration>& busy : busy_before_) busy.resize(levels);
  for (std::vector<absl::Duration>& busy : busy_now_) busy.resize(levels);
  busy_.resize(levels);
  actions_.reserve(4 * core.units.size());
  updates_.reserve(core.units.size());
}

absl::Status StepBoundary::Allocate(ShardMemory& memory) {
  STRATA_RETURN_IF_ERROR(joins_.Allocate(memory));
  STRATA_RETURN_IF_ERROR(record_.Allocate(memory));
  return node_bytes_.Allocate(memory);
}

absl::Status StepBoundary::Begin(const StepInput& input) {
  STRATA_RETURN_IF_ERROR(optimizer_.SetGroups(input.groups));
  STRATA_CHECK(state_ == State::kIdle);
  input_ = input;
  state_ = State::kJoins;
  for (size_t u = 0; u < core_.units.size(); ++u) {
    const GradientPath::Contribution own = gradients_.contribution(UnitId(u));
    const auto told = static_cast<uint16_t>(own.joined | (own.real ? kRealBit : 0));
    std::memcpy(joins_.own().data() + u * sizeof(told), &told, sizeof(told));
  }
  joins_.Start(gradients_.ExchangeNumber(0), absl::StrCat("joins of step ", core_.step),
               [this] { OnJoins(); });
  return absl::OkStatus();
}

void StepBoundary::OnJoins() {
  for (size_t u = 0; u < core_.units.size(); ++u) {
    required_[u] = 0;
    real_[u] = false;
    for (int rank = 0; rank < core_.topology.size(); ++rank) {
      uint16_t told;
      std::memcpy(&told, joins_.Of(Rank{rank}).data() + u * sizeof(told), sizeof(told));
      required_[u] = std::max(required_[u], static_cast<int>(told & ~kRealBit));
      real_[u] = real_[u] || (told & kRealBit) != 0;
    }
  }
  state_ = State::kReduces;
  gradients_.Finish(required_);
  core_.progress();
}

void StepBoundary::Advance() {
  if (state_ == State::kReduces && gradients_.finished() && core_.meter.Final(core_.step - 1)) {
    reduced_ = core_.control.Now();
    SendRecord();
  }
  // Shards may change when no operation of this rank reads them, and so no peer does.
  if (state_ == State::kQuiet && samples_ == 0 && gathers_.idle()) BeginUpdate();
}

void StepBoundary::SendRecord() {
  state_ = State::kRecord;
  exchanges_ = 2;
  const Record record{
      .norm = gradients_.norm().ToWire(), .loss = input_.loss, .tokens = input_.tokens};
  std::memcpy(record_.own().data(), &record, sizeof(record));
  record_.Start(gradients_.ExchangeNumber(1), absl::StrCat("records of step ", core_.step),
                [this] { OnRecord(); });
  node_bytes_.Start(gradients_.ExchangeNumber(2), core_.step - 1, [this] {
    if (--exchanges_ == 0) OnDecided();
  });
  SampleBusy();
}

void StepBoundary::SampleBusy() {
  for (const LaneId lane : {LaneId::kGather, LaneId::kReduce}) {
    ++samples_;
    const Lane& of = lane == LaneId::kGather ? core_.gather : core_.reduce;
    of.loop->Post([this, lane, runner = of.runner] {
      std::vector<absl::Duration>& busy = busy_now_[static_cast<size_t>(lane)];
      for (size_t level = 0; level < busy.size(); ++level) {
        busy[level] = runner->counters(static_cast<int>(level)).busy;
      }
      core_.control.Post([this] {
        if (--samples_ == 0) core_.progress();
      });
    });
  }
}

absl::Status StepBoundary::ReadRecords() {
  NormSum sum;
  StepReport& report = core_.meter.report(core_.step);
  report.loss = 0;
  report.tokens = 0;
  for (int rank = 0; rank < core_.topology.size(); ++rank) {
    Record record;
    std::memcpy(&record, record_.Of(Rank{rank}).data(), sizeof(record));
    STRATA_ASSIGN_OR_RETURN(const NormSum norm, NormSum::FromWire(record.norm));
    sum.Add(norm);
    report.loss += record.loss;
    report.tokens += record.tokens;
  }
  report.norm_before_clip = report.norm_after_clip = sum.Sqrt();
  report.skipped = !sum.finite();
  if (!report.skipped) {
    clip_ = MakeClip(report.norm_before_clip, core_.options.clip);
    report.norm_after_clip = clip_.norm_after;
  }
  report.missed_prefetches = scheduler_.missed_prefetches() - missed_before_;
  missed_before_ = scheduler_.missed_prefetches();
  return absl::OkStatus();
}

void StepBoundary::OnRecord() {
  decided_ = core_.control.Now();
  if (absl::Status status = ReadRecords(); !status.ok()) return core_.fail(std::move(status));
  if (--exchanges_ == 0) OnDecided();
}

void StepBoundary::OnDecided() {
  state_ = State::kQuiet;
  core_.progress();
}

void StepBoundary::BeginUpdate() {
  state_ = State::kUpdate;
  for (size_t level = 0; level < busy_.size(); ++level) {
    busy_[level] = absl::ZeroDuration();
    for (size_t lane = 0; lane < 2; ++lane) {
      busy_[level] += busy_now_[lane][level] - busy_before_[lane][level];
      busy_before_[lane][level] = busy_now_[lane][level];
    }
  }
  const bool skipped = core_.meter.report(core_.step).skipped;
  updates_.clear();
  next_update_ = 0;
  for (size_t u = 0; u < core_.units.size(); ++u) gathers_.BeginUpdate(UnitId(u));

  // From here on what is issued belongs to the next step, publishes excepted.
  ++core_.step;
  core_.meter.Open(core_.step);
  actions_.clear();
  const absl::Status status = scheduler_.On({.kind = SchedulerCall::Kind::kEndStep}, actions_);
  if (!status.ok()) return core_.fail(status);
  if (!core_.gathered()) {
    // Only publishes, and ranks may have used different units: an order that is the same on all.
    std::sort(actions_.begin(), actions_.end(),
              [](const SchedulerAction& a, const SchedulerAction& b) { return a.unit < b.unit; });
  }
  gathers_.Apply(actions_);
  gradients_.BeginStep();

  std::vector<bool> listed(core_.units.size());
  const auto list = [&](UnitId unit) {
    if (listed[Index(unit)]) return;
    listed[Index(unit)] = true;
    updates_.push_back(unit);
  };
  for (const SchedulerAction& action : actions_) list(action.unit);
  for (size_t u = 0; u < core_.units.size(); ++u) list(UnitId(u));
  const auto changes = std::stable_partition(updates_.begin(), updates_.end(), [&](UnitId unit) {
    return !skipped && real_[Index(unit)];
  });
  for (auto unit = changes; unit != updates_.end(); ++unit) gathers_.EndUpdate(*unit);
  updates_.erase(changes, updates_.end());
  UpdateNext();
}

void StepBoundary::UpdateNext() {
  if (!core_.failure.ok()) return;
  if (next_update_ == updates_.size()) {
    state_ = State::kDone;
    core_.progress();
    return;
  }
  const Unit& unit = core_.units[Index(updates_[next_update_++])];
  auto job = std::make_unique<LaneJob>(core_.reduce);
  optimizer_.AddUpdate(unit, clip_.factor, *job);
  if (unit.published.base != unit.master.base) {
    const DType dtype = core_.options.compute_dtype;
    job->AddKernel(unit.optimizer_elements, EngineCore::kPieceBytes / 4,
                   [dtype, size = SizeOf(dtype), to = unit.published.base,
                    from = unit.master.floats()](int64_t first, int64_t count) -> KernelCall {
                     return ConvertCall{.dst_dtype = dtype,
                                        .dst = to + first * size,
                                        .src_dtype = DType::kF32,
                                        .src = from + first,
                                        .elements = count};
                   });
  }
  LaneJob::Start(
      std::move(job), core_.control,
      core_.Counted([this, id = unit.id, begin = core_.control.Now()](absl::Status status) {
        OnUpdated(id, begin, std::move(status));
      }));
}

void StepBoundary::OnUpdated(UnitId unit, absl::Time begin, absl::Status status) {
  if (!status.ok()) return core_.fail(std::move(status));
  core_.trace.Add(Trace::Track::kReduceLane, Trace::Kind::kOptimizer, unit, begin,
                  core_.control.Now());
  gathers_.EndUpdate(unit);
  UpdateNext();
}

std::optional<PendingOperation> StepBoundary::Pending() const {
  const auto exchange = [this](const Exchange& of, int index, const char* what) {
    return PendingOperation{.lane = LaneId::kReduce,
                            .operation = gradients_.ExchangeNumber(index),
                            .outermost = of.plan().outermost,
                            .what = absl::StrCat(what, " of step ", core_.step),
                            .started = true};
  };
  switch (state_) {
    case State::kJoins:
      return exchange(joins_, 0, "joins");
    case State::kReduces:
      return gradients_.Pending();
    case State::kRecord:
      return exchange(record_, 1, "records");
    case State::kQuiet:
      return gathers_.Pending(std::nullopt);
    default:
      return std::nullopt;
  }
}

}  // namespace strata
