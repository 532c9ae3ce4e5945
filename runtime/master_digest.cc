#include "runtime/master_digest.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"
#include "runtime/lane_job.h"

namespace strata {
namespace {

// Hashed at once on the control loop, which has heartbeats to send: a millisecond.
constexpr int64_t kPieceElements = 256 << 10;

// Kinds of operations from here on are not units' gathers and publishes.
constexpr uint32_t kDigestKind = 0x80000000u;

}  // namespace

struct MasterDigest::Run {
  Sha256 sha;
  size_t unit = 0;
  std::vector<std::byte> values, scratch;
  FlatBuffer output, scratch_buffer;
  absl::AnyInvocable<void(std::string) &&> done;
};

void MasterDigest::Start(absl::AnyInvocable<void(std::string) &&> done) {
  auto run = std::make_shared<Run>();
  run->done = std::move(done);
  NextUnit(std::move(run));
}

void MasterDigest::NextUnit(std::shared_ptr<Run> run) {
  if (run->unit == core_.units.size()) {
    std::move(run->done)(run->sha.HexDigest());
    return;
  }
  const Unit& unit = core_.units[run->unit];
  const UnitShards& shards = core_.plans[run->unit]->shards;
  absl::StatusOr<Plan> plan =
      PlanGather(core_.topology, shards.optimizer, shards.full, core_.self,
                 {.dtype = DType::kF32, .chunk_bytes = core_.options.chunk_bytes});
  if (!plan.ok()) return core_.fail(plan.status());
  run->values.resize(static_cast<size_t>(plan->output_bytes));
  run->scratch.resize(static_cast<size_t>(plan->scratch_bytes));
  run->output = {run->values.data(), plan->output_bytes};
  run->scratch_buffer = {run->scratch.data(), plan->scratch_bytes};

  auto job = std::make_unique<LaneJob>(core_.gather);
  RunOptions options{.what = "digest of " + core_.Name(unit.id), .priority = gathers_.sequence()};
  options.operation = gathers_.NextOperation(kDigestKind + static_cast<uint32_t>(run->unit));
  options.order = gathers_.order();
  job->AddRun(std::make_shared<const Plan>(*std::move(plan)),
              {.input = unit.master.View(),
               .output = run->output.View(),
               .scratch = run->scratch_buffer.View()},
              std::move(options));
  LaneJob::Start(std::move(job), core_.control, core_.Counted([this, run](absl::Status status) {
    if (!status.ok()) return core_.fail(std::move(status));
    HashPiece(run, 0, 0);
  }));
}

void MasterDigest::HashPiece(std::shared_ptr<Run> run, size_t parameter, int64_t element) {
  if (!core_.failure.ok()) return;
  const Unit& unit = core_.units[run->unit];
  if (parameter == unit.spec.parameters.size()) {
    ++run->unit;
    return NextUnit(std::move(run));
  }
  const int64_t elements = unit.spec.parameters[parameter].elements;
  const int64_t count = std::min(kPieceElements, elements - element);
  const int64_t offset = (unit.shape.offsets[parameter] + element) * 4;
  run->sha.Update(std::span<const std::byte>(run->values)
                      .subspan(static_cast<size_t>(offset), static_cast<size_t>(count * 4)));
  const bool last = element + count == elements;
  core_.control.Post([this, run = std::move(run), parameter, element, count, last]() mutable {
    HashPiece(std::move(run), last ? parameter + 1 : parameter, last ? 0 : element + count);
  });
}

}  // namespace strata
