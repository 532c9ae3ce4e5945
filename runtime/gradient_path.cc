#include "runtime/gradient_path.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

// Sets of buffers besides the kept one: the next job's head overlaps the tail of the one before.
constexpr int kJobs = 2;
constexpr int64_t kExchanges = 4;         // numbers for ExchangeNumber, per step
constexpr int64_t kOperations = 1 << 20;  // numbers that transports carry

}  // namespace

GradientPath::GradientPath(EngineCore& core) : core_(core), units_(core.units.size()) {}

absl::Status GradientPath::CheckNumbers() const {
  const int64_t units = static_cast<int64_t>(units_.size());
  const int64_t per_step = units * (core_.options.accumulation + 2) + kExchanges;
  if (2 * per_step <= kOperations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(units, " units with ", core_.options.accumulation, " micro-steps are ", per_step,
                   " operations in a step, and at most ", kOperations / 2,
                   " can be told apart: use fewer, larger units or fewer micro-steps"));
}

uint32_t GradientPath::Number(UnitId unit, int stage) const {
  const int64_t units = static_cast<int64_t>(units_.size());
  const int64_t per_step = units * (core_.options.accumulation + 2) + kExchanges;
  return static_cast<uint32_t>(core_.step % 2 * per_step + stage * units + Index(unit));
}

uint32_t GradientPath::ExchangeNumber(int index) const {
  return Number(UnitId{index}, core_.options.accumulation + 2);
}

absl::Status GradientPath::AllocateBuffers(ShardMemory& memory) {
  const int64_t size = SizeOf(core_.options.gradient_dtype);
  const bool convert_input = core_.options.gradient_dtype != core_.options.compute_dtype;
  const bool round_input = core_.options.gradient_dtype != DType::kF32;
  JobBuffers micro, boundary;  // sizes only
  const auto grow = [](FlatBuffer& buffer, int64_t bytes) {
    buffer.bytes = std::max(buffer.bytes, bytes);
  };
  bool has_micro = false, has_boundary = false;
  for (size_t u = 0; u < units_.size(); ++u) {
    const Unit& unit = core_.units[u];
    const UnitPlans& plans = *core_.plans[u];
    if (plans.micro) {
      has_micro = true;
      if (convert_input) grow(micro.input, unit.shape.elements * size);
      grow(micro.output, unit.gradient_elements * size);
      grow(micro.scratch, plans.micro.plan->scratch_bytes);
    }
    if (plans.boundary) {
      has_boundary = true;
      if (round_input) grow(boundary.input, unit.gradient_elements * size);
      grow(boundary.output, plans.shards.reduced.OwnedElements(core_.self) * size);
      grow(boundary.scratch, plans.boundary.plan->scratch_bytes);
    }
    if (plans.spread) {
      grow(boundary.spread, unit.optimizer_elements * size);
      grow(boundary.scratch, plans.spread.plan->scratch_bytes);
    }
  }
  const auto allocate = [&memory](const JobBuffers& sizes, std::deque<JobBuffers>& pool) {
    for (int i = 0; i < kJobs + 1; ++i) {
      JobBuffers& buffers = pool.emplace_back(sizes);
      for (FlatBuffer* buffer :
           {&buffers.input, &buffers.output, &buffers.spread, &buffers.scratch}) {
        STRATA_ASSIGN_OR_RETURN(buffer->base,
                                memory.Allocate(buffer->bytes, "buffers of gradient reduces"));
      }
    }
    return absl::OkStatus();
  };
  if (has_micro) STRATA_RETURN_IF_ERROR(allocate(micro, micro_buffers_));
  if (has_boundary) STRATA_RETURN_IF_ERROR(allocate(boundary, boundary_buffers_));
  return absl::OkStatus();
}

absl::Status GradientPath::Allocate(ShardMemory& memory) {
  STRATA_RETURN_IF_ERROR(CheckNumbers());
  int64_t largest = 0;
  for (const Unit& unit : core_.units) largest = std::max(largest, unit.shape.elements);
  zero_page_bytes_ = core_.zero_page_bytes;
  zero_pages_.assign(
      static_cast<size_t>(PagesOf(std::max<int64_t>(1, largest * 4), zero_page_bytes_)),
      core_.zeros);
  return AllocateBuffers(memory);
}

void GradientPath::Want(UnitId unit) {
  wanted_.push_back(unit);
  PumpBuffers();
}

void GradientPath::PumpBuffers() {
  while (!wanted_.empty()) {
    UnitState& unit = units_[Index(wanted_.front())];
    const int slot = core_.GradientSlot(wanted_.front());
    if (unit.busy || !core_.arena->TryReserve(slot)) return;
    core_.arena->Map(slot, 0);
    core_.meter.Memory(core_.step, core_.arena->used_bytes());
    unit.lent = true;
    wanted_.pop_front();
  }
}

bool GradientPath::Wanted(UnitId unit) const {
  return std::find(wanted_.begin(), wanted_.end(), unit) != wanted_.end();
}

absl::Status GradientPath::CheckNotStuck(UnitId unit) const {
  const bool comes_back = std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) {
    return job.index != kBoundary && job.input != Input::kZeros;
  });
  if (!Wanted(unit) || comes_back) return absl::OkStatus();
  std::string lent;
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].lent) absl::StrAppend(&lent, lent.empty() ? "" : ", ", core_.units[u].spec.name);
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      core_.Name(unit), " wants a gradient buffer, and those of ", lent,
      " take all memory for gradients: Reduce or Release them first, or raise prefetch.bytes"));
}

absl::Status GradientPath::Reduce(UnitId unit) {
  UnitState& state = units_[Index(unit)];
  if (!state.lent) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Reduce of ", core_.Name(unit),
        ": it has no gradient buffer now; Acquire it for backward first, and Reduce it once"));
  }
  if (state.joined == core_.options.accumulation) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Reduce of ", core_.Name(unit), ": the step has had its ", core_.options.accumulation,
        " micro-steps (train.accumulation); EndStep comes next"));
  }
  state.real = true;
  Join(unit, Input::kBuffer);
  return absl::OkStatus();
}

void GradientPath::Discard(UnitId unit) {
  if (units_[Index(unit)].lent) Join(unit, Input::kDiscarded);
}

void GradientPath::Join(UnitId unit, Input input) {
  UnitState& state = units_[Index(unit)];
  core_.arena->Unmap(core_.GradientSlot(unit));
  state.lent = false;
  state.busy = true;
  AddJob(unit, state.joined < core_.options.accumulation ? state.joined++ : kNothing, input);
  if (state.joined == core_.options.accumulation) AddBoundary(unit);
  PumpJobs();
}

GradientPath::Contribution GradientPath::contribution(UnitId unit) const {
  return {.joined = units_[Index(unit)].joined, .real = units_[Index(unit)].real};
}

bool GradientPath::lends() const {
  return !wanted_.empty() ||
         std::any_of(units_.begin(), units_.end(), [](const UnitState& u) { return u.lent; });
}

void GradientPath::Finish(std::span<const int> joins) {
  finishing_ = true;
  for (size_t u = 0; u < units_.size(); ++u) {
    UnitState& unit = units_[u];
    unit.required = joins[u];
    while (unit.joined < unit.required) {
      AddJob(UnitId(u), unit.joined++, Input::kZeros);
    }
    if (unit.required == 0) continue;
    AddBoundary(UnitId(u));
    unfinished_ += std::count_if(jobs_.begin(), jobs_.end(), [&](const Job& job) {
      return job.index == kBoundary && Index(job.unit) == static_cast<int32_t>(u);
    });
  }
  PumpJobs();
}

// With the last join, not when the last micro-step's reduce has ended: which ends first differs
// between ranks, and boundaries that wait for buffers or credits in different orders wait for ever.
void GradientPath::AddBoundary(UnitId id) {
  UnitState& unit = units_[Index(id)];
  if (std::exchange(unit.boundary_issued, true)) return;
  AddJob(id, kBoundary, Input::kZeros);
}

void GradientPath::BeginStep() {
  STRATA_CHECK(jobs_.empty() && !lends());
  for (UnitState& unit : units_) unit = {};
  finishing_ = false;
  unfinished_ = 0;
  norm_ = {};
}

}  // namespace strata
