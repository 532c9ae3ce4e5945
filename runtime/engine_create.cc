// How an Engine comes to be: plans, the division of unit memory, pools.
#include <algorithm>
#include <utility>

#include "kernels/status.h"
#include "runtime/engine.h"

namespace strata {
namespace {

constexpr int64_t kTraceSpans = 1 << 16;

// How unit memory is divided, in pages.
struct Division {
  int64_t page_bytes = 0;
  int64_t parameters = 0;  // for gathered units
  int64_t gradients = 0;   // for gradient buffers
};

// [Note: Division of unit memory] Gradient buffers get two of the largest unit, so that one is
// written while the other is reduced, or three when that is at most half of the budget (a unit that
// is tied to others keeps its buffer through backward). Gathers get the rest, which is at least
// two: the unit in use and the next. Where parameters are never gathered, gradients get three.
// Neither gets more than it can use.
absl::StatusOr<Division> Divide(const std::vector<Unit>& units, const EngineOptions& options,
                                bool gathered) {
  std::vector<int64_t> bytes;
  size_t largest = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    bytes.push_back(units[u].shape.elements * SizeOf(options.compute_dtype));
    if (bytes[u] > bytes[largest]) largest = u;
  }
  Division division{.page_bytes = ChoosePageBytes(bytes)};
  const int64_t unit_pages = PagesOf(bytes[largest], division.page_bytes);
  const int64_t pages = options.prefetch_bytes / division.page_bytes;
  const int64_t least = (gathered ? 4 : 2) * unit_pages;
  if (pages < least) {
    return absl::ResourceExhaustedError(
        absl::StrCat("unit \"", units[largest].spec.name, "\" of ", bytes[largest], " bytes wants ",
                     least * division.page_bytes, " bytes of unit memory (",
                     gathered ? "two of it gathered, two gradients" : "two gradients",
                     ", in pages of ", division.page_bytes, "), and prefetch.bytes is ",
                     options.prefetch_bytes, ": set prefetch.bytes to at least ",
                     least * division.page_bytes, ", or use smaller units"));
  }
  const int64_t share = gathered ? pages / 2 : pages;
  division.gradients = (3 * unit_pages <= share ? 3 : 2) * unit_pages;
  division.parameters = gathered ? pages - division.gradients : 0;
  int64_t all_pages = 0;
  for (int64_t of_unit : bytes) all_pages += PagesOf(of_unit, division.page_bytes);
  division.parameters = std::min(division.parameters, kUnitCopies * all_pages);
  division.gradients = std::min(division.gradients, all_pages);
  return division;
}

absl::Status MakeUnitMemory(const Division& division, SharedMemory& shared, ShardMemory& memory,
                            EngineCore& core) {
  const int64_t page = division.page_bytes;
  core.page_bytes = page;
  core.zero_page_bytes = std::min(page, core.options.chunk_bytes);
  UnitArena::Options options{.page_bytes = page};
  for (const Unit& unit : core.units) {
    const int64_t bytes = unit.shape.elements * SizeOf(core.options.compute_dtype);
    options.slots.push_back(
        {core.gathered() ? bytes : 0, EngineCore::kParameterSection, kUnitCopies});
  }
  for (size_t u = 0; u < core.units.size(); ++u) {
    options.slots.push_back({core.units[u].shape.elements * SizeOf(core.options.compute_dtype),
                             EngineCore::kGradientSection});
  }
  options.section_pages = {division.parameters, division.gradients};
  STRATA_ASSIGN_OR_RETURN(core.arena, MakeArena(shared, options));
  STRATA_ASSIGN_OR_RETURN(
      core.zeros,
      memory.Allocate(std::max(EngineCore::kPieceBytes, core.zero_page_bytes), "zeros"));
  return absl::OkStatus();
}

MemoryReport Predict(const EngineCore& core, int64_t pool_bytes, int64_t scratch_bytes) {
  MemoryReport report{.arena = pool_bytes, .scratch = scratch_bytes};
  for (const Unit& unit : core.units) {
    if (unit.parameters.base != unit.master.base) report.parameters += unit.parameters.bytes;
    if (unit.published.base != unit.master.base && unit.published.base != unit.parameters.base) {
      report.parameters += unit.published.bytes;
    }
    report.gradients += unit.accumulator.bytes;
    report.optimizer += unit.master.bytes + unit.moments[0].bytes + unit.moments[1].bytes;
  }
  report.total =
      report.parameters + report.gradients + report.optimizer + report.arena + report.scratch;
  return report;
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineCore> core, PrefetchScheduler scheduler)
    : core_(std::move(core)),
      scheduler_(std::move(scheduler)),
      gathers_(*core_),
      gradients_(*core_),
      boundary_(*core_, scheduler_, gathers_, gradients_),
      agreement_(*core_),
      digest_(*core_, gathers_),
      flush_bytes_(*core_),
      holds_(core_->units.size()) {
  core_->fail = [this](absl::Status why) { Fail(std::move(why)); };
  core_->progress = [this] { Progress(); };
  for (Hold& hold : holds_) hold.phases.reserve(4);
  actions_.reserve(2 * core_->units.size() + 8);
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Environment& environment,
                                                       const EngineOptions& options,
                                                       std::vector<Unit> units) {
  STRATA_RETURN_IF_ERROR(CheckEngineOptions(options));
  if (units.empty()) {
    return absl::FailedPreconditionError("there is no unit: declare at least one before Seal");
  }
  auto core =
      std::make_unique<EngineCore>(EngineCore{.control = environment.control,
                                              .gather = environment.gather,
                                              .reduce = environment.reduce,
                                              .topology = environment.topology,
                                              .self = environment.self,
                                              .options = options,
                                              .units = std::move(units),
                                              .meter = StepMeter(environment.topology),
                                              .trace = Trace(options.trace ? kTraceSpans : 0)});
  STRATA_ASSIGN_OR_RETURN(const Division division, Divide(core->units, options, core->gathered()));
  const int64_t kept = environment.memory.allocated_bytes();
  PlanCache cache(environment.topology, environment.self, options);
  std::vector<ScheduledUnit> scheduled;
  for (const Unit& unit : core->units) {
    STRATA_ASSIGN_OR_RETURN(std::shared_ptr<const UnitPlans> plans,
                            cache.Plans(unit.shape.elements, division.page_bytes));
    core->plans.push_back(std::move(plans));
    const int64_t bytes = unit.shape.elements * SizeOf(options.compute_dtype);
    scheduled.push_back({.bytes = PagesOf(bytes, division.page_bytes) * division.page_bytes,
                         .gathered = core->gathered(),
                         .published = core->published()});
  }
  STRATA_RETURN_IF_ERROR(MakeUnitMemory(division, environment.shared, environment.memory, *core));
  STRATA_ASSIGN_OR_RETURN(
      PrefetchScheduler scheduler,
      PrefetchScheduler::Create(std::move(scheduled), division.parameters * division.page_bytes));
  const int64_t pool_bytes = (division.parameters + division.gradients) * division.page_bytes;
  std::unique_ptr<Engine> engine(new Engine(std::move(core), std::move(scheduler)));
  ShardMemory& memory = environment.memory;
  STRATA_RETURN_IF_ERROR(engine->gathers_.Allocate(memory));
  STRATA_RETURN_IF_ERROR(engine->gradients_.Allocate(memory));
  STRATA_RETURN_IF_ERROR(engine->boundary_.Allocate(memory));
  STRATA_RETURN_IF_ERROR(engine->agreement_.Allocate(memory));
  STRATA_RETURN_IF_ERROR(engine->flush_bytes_.Allocate(memory));
  engine->memory_ = Predict(*engine->core_, pool_bytes, memory.allocated_bytes() - kept);
  return engine;
}

}  // namespace strata
