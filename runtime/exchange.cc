#include "runtime/exchange.h"

#include <memory>
#include <utility>

#include "kernels/status.h"
#include "runtime/lane_job.h"

namespace strata {

Exchange::Exchange(EngineCore& core, int64_t record_bytes)
    : core_(core), record_bytes_(record_bytes) {}

absl::Status Exchange::Allocate(ShardMemory& memory) {
  STRATA_ASSIGN_OR_RETURN(
      plan_, CountPlan(PlanExchange(core_.topology, record_bytes_, core_.self), core_.topology));
  own_.bytes = plan_.plan->input_bytes;
  all_.bytes = plan_.plan->output_bytes;
  scratch_.bytes = plan_.plan->scratch_bytes;
  for (FlatBuffer* buffer : {&own_, &all_, &scratch_}) {
    STRATA_ASSIGN_OR_RETURN(buffer->base, memory.Allocate(buffer->bytes, "boundary records"));
  }
  return absl::OkStatus();
}

void Exchange::Start(uint32_t operation, std::string what, absl::AnyInvocable<void() &&> ended) {
  const int64_t step = core_.step;
  core_.meter.IssueExchange(step, plan_);
  auto job = std::make_unique<LaneJob>(core_.reduce);
  // Priority 0: a record is a few hundred bytes, and everyone waits for it.
  job->AddRun(plan_.plan, {.input = own_.View(), .output = all_.View(), .scratch = scratch_.View()},
              {.what = std::move(what), .operation = operation});
  const absl::Time begin = core_.control.Now();
  LaneJob::Start(
      std::move(job), core_.control,
      core_.Counted([this, step, begin, ended = std::move(ended)](absl::Status status) mutable {
        core_.meter.End(step);
        if (!status.ok()) return core_.fail(std::move(status));
        core_.trace.Add(Trace::Track::kReduceLane, Trace::Kind::kExchange, Trace::kNoUnit, begin,
                        core_.control.Now());
        std::move(ended)();
      }));
}

}  // namespace strata
