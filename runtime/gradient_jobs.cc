// The jobs of a GradientPath: what a micro-step's and a boundary's reduce are made of.
#include <algorithm>
#include <utility>

#include "kernels/status.h"
#include "runtime/gradient_path.h"

namespace strata {
namespace {

constexpr int64_t kPieceElements = EngineCore::kPieceBytes / 4;

}  // namespace

void GradientPath::AddJob(UnitId unit, int index, Input input) {
  const UnitPlans& plans = *core_.plans[Index(unit)];
  if (index == kBoundary) {
    if (plans.boundary) core_.meter.Issue(core_.step, plans.boundary);
    if (plans.spread) core_.meter.Issue(core_.step, plans.spread);
  } else if (index != kNothing && plans.micro) {
    core_.meter.Issue(core_.step, plans.micro);
  }
  jobs_.push_back({.unit = unit, .index = index, .input = input, .sequence = next_sequence_++});
}

bool GradientPath::FirstOfUnit(JobList::const_iterator job) const {
  return std::none_of(jobs_.begin(), job,
                      [&](const Job& earlier) { return earlier.unit == job->unit; });
}

bool GradientPath::NeedsBuffers(const Job& job) const {
  const UnitPlans& plans = *core_.plans[Index(job.unit)];
  if (job.index == kBoundary) return static_cast<bool>(plans.boundary);
  return job.index != kNothing && plans.micro;
}

UnitId GradientPath::LowestUnfinished() const {
  int32_t lowest = static_cast<int32_t>(units_.size());
  for (const Job& job : jobs_) lowest = std::min(lowest, Index(job.unit));
  return UnitId{lowest};
}

// Jobs of one kind take buffers in the order of the joins, which all ranks share: else two ranks
// could give all they have to jobs that the other has not come to. One set is kept for the lowest
// unit that is not finished, whose zeros some rank may have added last.
int GradientPath::TakeBuffers(const Job& job, bool in_turn) {
  std::deque<JobBuffers>& pool = PoolOf(job);
  const int kept = static_cast<int>(pool.size()) - 1;
  for (int i = 0; i <= kept; ++i) {
    const bool may = i < kept ? in_turn : finishing_ && job.unit == LowestUnfinished();
    if (pool[i].taken || !may) continue;
    pool[i].taken = true;
    return i;
  }
  return kNoBuffers;
}

void GradientPath::PreferLowestUnfinished() {
  const UnitId lowest = LowestUnfinished();
  const auto job =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.unit == lowest; });
  if (job == jobs_.end() || job->sequence == preferred_) return;
  preferred_ = job->sequence;
  core_.reduce.loop->Post(
      [runner = core_.reduce.runner, sequence = preferred_] { runner->Prefer(sequence); });
}

void GradientPath::PumpJobs() {
  if (!core_.failure.ok()) return;
  if (finishing_) PreferLowestUnfinished();
  bool micro_in_turn = true, boundary_in_turn = true;
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if (job->started) continue;
    bool& in_turn = job->index == kBoundary ? boundary_in_turn : micro_in_turn;
    const bool first = FirstOfUnit(job), needs = NeedsBuffers(*job);
    if (first && needs) job->buffers = TakeBuffers(*job, in_turn);
    if (first && (!needs || job->buffers != kNoBuffers)) {
      Start(job);
    } else if (needs) {
      in_turn = false;
    }
  }
}

void GradientPath::Start(JobList::iterator job) {
  job->started = true;
  job->begin = core_.control.Now();
  auto stages = std::make_unique<LaneJob>(core_.reduce);
  if (job->index == kBoundary) {
    AddBoundaryStages(*job, *stages);
  } else {
    AddMicroStages(*job, *stages);
  }
  LaneJob::Start(std::move(stages), core_.control, core_.Counted([this, job](absl::Status status) {
    OnEnd(job, std::move(status));
  }));
}

RunOptions GradientPath::MakeRunOptions(const Job& job, int stage) const {
  return {.what = absl::StrCat(job.index == kBoundary ? "boundary reduce " : "reduce ",
                               core_.Name(job.unit)),
          .operation = Number(job.unit, stage),
          .priority = job.sequence,
          .moved = core_.meter.Moved(core_.step, LaneId::kReduce)};
}

void GradientPath::AddZeroPages(UnitId unit, LaneJob& stages) const {
  const PlanBuffer pages = core_.arena->Pages(core_.GradientSlot(unit), 0);
  const int64_t bytes =
      core_.units[Index(unit)].shape.elements * SizeOf(core_.options.compute_dtype);
  stages.AddKernel(bytes, std::min(core_.kPieceBytes, pages.page_bytes),
                   [pages, zeros = core_.zeros](int64_t first, int64_t count) -> KernelCall {
                     return CopyCall{.dst = pages.At(first), .src = zeros, .bytes = count};
                   });
}

void GradientPath::AddAccumulate(const Job& job, const PlanBuffer& source, DType dtype,
                                 LaneJob& stages) const {
  const Unit& unit = core_.units[Index(job.unit)];
  const int64_t size = SizeOf(dtype);
  const Accumulation mode = job.index == 0 ? Accumulation::kSet : Accumulation::kAdd;
  stages.AddKernel(unit.gradient_elements,
                   std::min(kPieceElements, std::max<int64_t>(1, source.page_bytes / size)),
                   [mode, source, dtype, size, to = unit.accumulator.floats()](
                       int64_t first, int64_t count) -> KernelCall {
                     return AccumulateCall{.mode = mode,
                                           .dst = to + first,
                                           .src_dtype = dtype,
                                           .src = source.At(first * size),
                                           .elements = count};
                   });
}

void GradientPath::AddMicroStages(const Job& job, LaneJob& stages) {
  const Unit& unit = core_.units[Index(job.unit)];
  const UnitPlans& plans = *core_.plans[Index(job.unit)];
  const DType compute = core_.options.compute_dtype, gradient = core_.options.gradient_dtype;
  const int64_t compute_size = SizeOf(compute), gradient_size = SizeOf(gradient);
  if (job.input == Input::kDiscarded) AddZeroPages(job.unit, stages);
  if (job.index == kNothing) return;

  PlanBuffer input{.pages = zero_pages_, .page_bytes = zero_page_bytes_};
  if (job.input != Input::kZeros) input = core_.arena->Pages(core_.GradientSlot(job.unit), 0);
  if (!plans.micro) {
    AddAccumulate(job, input, compute, stages);
  } else {
    JobBuffers& buffers = micro_buffers_[static_cast<size_t>(job.buffers)];
    if (compute != gradient && job.input != Input::kZeros) {
      stages.AddKernel(unit.shape.elements,
                       std::min(kPieceElements, input.page_bytes / compute_size),
                       [=, to = buffers.input.base](int64_t first, int64_t count) -> KernelCall {
                         return ConvertCall{.dst_dtype = gradient,
                                            .dst = to + first * gradient_size,
                                            .src_dtype = compute,
                                            .src = input.At(first * compute_size),
                                            .elements = count};
                       });
      input = buffers.input.View();
    }
    stages.AddRun(
        plans.micro.plan,
        {.input = input, .output = buffers.output.View(), .scratch = buffers.scratch.View()},
        MakeRunOptions(job, job.index));
    AddAccumulate(job, buffers.output.View(), gradient, stages);
  }
  if (job.input == Input::kBuffer) AddZeroPages(job.unit, stages);
}

void GradientPath::AddBoundaryStages(const Job& job, LaneJob& stages) {
  const Unit& unit = core_.units[Index(job.unit)];
  const UnitPlans& plans = *core_.plans[Index(job.unit)];
  const DType gradient = core_.options.gradient_dtype;
  const int64_t size = SizeOf(gradient);
  float* const sums = unit.accumulator.floats();
  if (plans.boundary) {
    JobBuffers& buffers = boundary_buffers_[static_cast<size_t>(job.buffers)];
    PlanBuffer input = unit.accumulator.View();
    if (gradient != DType::kF32) {
      stages.AddKernel(unit.gradient_elements, kPieceElements,
                       [=, to = buffers.input.base](int64_t first, int64_t count) -> KernelCall {
                         return ConvertCall{.dst_dtype = gradient,
                                            .dst = to + first * size,
                                            .src_dtype = DType::kF32,
                                            .src = sums + first,
                                            .elements = count};
                       });
      input = buffers.input.View();
    }
    stages.AddRun(
        plans.boundary.plan,
        {.input = input, .output = buffers.output.View(), .scratch = buffers.scratch.View()},
        MakeRunOptions(job, core_.options.accumulation));
    const FlatBuffer* sum = &buffers.output;
    if (plans.spread) {
      stages.AddRun(plans.spread.plan,
                    {.input = buffers.output.View(),
                     .output = buffers.spread.View(),
                     .scratch = buffers.scratch.View()},
                    MakeRunOptions(job, core_.options.accumulation + 1));
      sum = &buffers.spread;
    }
    // The optimizer's shard lies inside the gradients': the front of the accumulator holds it.
    stages.AddKernel(unit.optimizer_elements, kPieceElements,
                     [=, from = sum->base](int64_t first, int64_t count) -> KernelCall {
                       return AccumulateCall{.mode = Accumulation::kSet,
                                             .dst = sums + first,
                                             .src_dtype = gradient,
                                             .src = from + first * size,
                                             .elements = count};
                     });
  }
  const auto factor = static_cast<float>(
      1.0 / (static_cast<double>(core_.topology.size()) * core_.options.accumulation));
  stages.AddKernel(unit.optimizer_elements, kPieceElements,
                   [=](int64_t first, int64_t count) -> KernelCall {
                     return ScaleCall{.dst = sums + first, .factor = factor, .elements = count};
                   });
  for (const ElementRange& range : unit.counted) {
    stages.AddKernel(
        range.size(), kPieceElements,
        [=, begin = range.begin, norm = &norm_](int64_t first, int64_t count) -> KernelCall {
          return SumSquaresCall{.sum = norm, .src = sums + begin + first, .elements = count};
        });
  }
}

void GradientPath::OnEnd(JobList::iterator job, absl::Status status) {
  const UnitPlans& plans = *core_.plans[Index(job->unit)];
  UnitState& unit = units_[Index(job->unit)];
  const bool boundary = job->index == kBoundary;
  if (!status.ok()) return core_.fail(std::move(status));
  if (boundary) {
    if (plans.boundary) core_.meter.End(core_.step);
    if (plans.spread) core_.meter.End(core_.step);
    if (finishing_) --unfinished_;
  } else if (job->index != kNothing) {
    if (plans.micro) core_.meter.End(core_.step);
  }
  if (job->buffers != kNoBuffers) PoolOf(*job)[static_cast<size_t>(job->buffers)].taken = false;
  if (!boundary && job->input != Input::kZeros) {
    core_.arena->Free(core_.GradientSlot(job->unit), 0);
    unit.busy = false;
  }
  core_.trace.Add(Trace::Track::kReduceLane,
                  boundary ? Trace::Kind::kBoundary : Trace::Kind::kReduce, job->unit, job->begin,
                  core_.control.Now());
  jobs_.erase(job);
  PumpJobs();
  PumpBuffers();
  core_.progress();
}

std::optional<PendingOperation> GradientPath::Pending() const {
  for (const Job& job : jobs_) {
    const UnitPlans& plans = *core_.plans[Index(job.unit)];
    const bool boundary = job.index == kBoundary;
    const CountedPlan& plan = boundary ? plans.boundary : plans.micro;
    if (!job.started || job.index == kNothing || !plan) continue;
    return PendingOperation{
        .lane = LaneId::kReduce,
        .operation = Number(job.unit, boundary ? core_.options.accumulation : job.index),
        .outermost = plan.outermost,
        .what = absl::StrCat(boundary ? "boundary reduce " : "reduce ", core_.Name(job.unit)),
        .started = true};
  }
  return std::nullopt;
}

}  // namespace strata
