#include "runtime/runtime.h"

#include <optional>
#include <utility>

#include "comm/awaited.h"
#include "comm/loop_calls.h"
#include "kernels/status.h"
#include "runtime/engine.h"
#include "runtime/runtime_options.h"

namespace strata {
namespace {

// The engine ends every call by its timeout; this much later the control loop itself is stuck.
constexpr absl::Duration kGrace = absl::Seconds(10);

}  // namespace

struct Runtime::State {
  RuntimeOptions options;
  EngineOptions engine_options;
  std::unique_ptr<World> world;
  std::unique_ptr<ShardMemory> memory;
  std::unique_ptr<UnitTable> table;  // until sealed
  std::unique_ptr<Engine> engine;    // from then on
  bool left = false;

  absl::StatusOr<EngineReply> Call(EngineCall call);
  void EndEngine();
};

// From here on nothing on the loops refers to the engine or to memory. A transport may return what
// was lent to it late, long after the call that waited for it has failed.
void Runtime::State::EndEngine() {
  const absl::Status why = absl::AbortedError("the Runtime has been shut down");
  RunInLoop(world->control(), [this, why] { engine->Fail(why); });
  world->CloseLanes(why);
  for (bool left_lanes = false; !left_lanes;) {
    // What a lane is at hands over to its next task, or to the control loop.
    RunInLoop(*world->gather().loop, [] {});
    RunInLoop(*world->reduce().loop, [] {});
    RunInLoop(world->control(), [&] { left_lanes = engine->LeftLanes(); });
  }
  RunInLoop(world->control(), [] {});
}

absl::StatusOr<EngineReply> Runtime::State::Call(EngineCall call) {
  if (left) return absl::FailedPreconditionError("the Runtime has been shut down");
  if (engine == nullptr) return absl::FailedPreconditionError("units are not sealed: call Seal");
  // Outlives the call when the reply is late.
  auto answer = std::make_shared<Awaited<absl::StatusOr<EngineReply>>>();
  world->control().Post([this, answer, call = std::move(call)]() mutable {
    engine->OnCall(std::move(call),
                   [answer](absl::StatusOr<EngineReply> reply) { answer->Set(std::move(reply)); });
  });
  std::optional<absl::StatusOr<EngineReply>> reply = answer->WaitFor(options.timeout + kGrace);
  if (!reply.has_value()) return absl::InternalError("the control loop does not answer");
  return *std::move(reply);
}

Runtime::Runtime(std::unique_ptr<State> state) : state_(std::move(state)) {}

Runtime::~Runtime() {
  if (!state_->left) Shutdown(absl::AbortedError("the Runtime was destroyed")).IgnoreError();
}

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Start(const RuntimeOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  STRATA_ASSIGN_OR_RETURN(state->options.world.fingerprint, MakeFingerprint(options));
  STRATA_ASSIGN_OR_RETURN(state->world, World::Join(state->options.world));
  absl::StatusOr<EngineOptions> engine_options =
      MakeEngineOptions(options, state->world->topology());
  if (!engine_options.ok()) {
    state->world->Leave(engine_options.status()).IgnoreError();
    return engine_options.status();
  }
  state->engine_options = *std::move(engine_options);
  state->memory = std::make_unique<ShardMemory>(state->world->shared_memory());
  state->table = std::make_unique<UnitTable>(state->world->topology(), state->world->self(),
                                             state->engine_options, *state->memory);
  return std::unique_ptr<Runtime>(new Runtime(std::move(state)));
}

Rank Runtime::self() const { return state_->world->self(); }
const Topology& Runtime::topology() const { return state_->world->topology(); }

const Layout& Runtime::layout() const { return state_->engine_options.layout; }

int64_t Runtime::elements() const {
  int64_t elements = 0;
  const State& state = *state_;
  for (const Unit& unit : state.engine ? state.engine->units() : state.table->units()) {
    elements += unit.shape.elements;
  }
  return elements;
}

absl::StatusOr<UnitId> Runtime::AddUnit(const UnitSpec& spec, const Initializer& init) {
  if (state_->table == nullptr) return absl::FailedPreconditionError("units are sealed already");
  return state_->table->Add(spec, init);
}

absl::Status Runtime::Seal() {
  State& state = *state_;
  if (state.table == nullptr) return absl::FailedPreconditionError("units are sealed already");
  STRATA_ASSIGN_OR_RETURN(state.engine,
                          Engine::Create({.control = state.world->control(),
                                          .gather = state.world->gather(),
                                          .reduce = state.world->reduce(),
                                          .topology = state.world->topology(),
                                          .self = state.world->self(),
                                          .shared = state.world->shared_memory(),
                                          .memory = *state.memory},
                                         state.engine_options, std::move(state.table->units())));
  state.table.reset();
  state.world->control().Post([engine = state.engine.get(), world = state.world.get()] {
    world->OnLoss([engine](absl::Status verdict) { engine->Fail(std::move(verdict)); });
  });
  return state.Call({.kind = EngineCall::Kind::kAgree}).status();
}

absl::StatusOr<UnitView> Runtime::Acquire(UnitId unit, Phase phase) {
  STRATA_ASSIGN_OR_RETURN(
      const EngineReply reply,
      state_->Call({.kind = EngineCall::Kind::kAcquire, .unit = unit, .phase = phase}));
  return reply.view;
}

absl::Status Runtime::Reduce(UnitId unit) {
  return state_->Call({.kind = EngineCall::Kind::kReduce, .unit = unit}).status();
}

absl::Status Runtime::Release(UnitId unit) {
  return state_->Call({.kind = EngineCall::Kind::kRelease, .unit = unit}).status();
}

absl::StatusOr<StepReport> Runtime::EndStep(const StepInput& input) {
  STRATA_ASSIGN_OR_RETURN(EngineReply reply,
                          state_->Call({.kind = EngineCall::Kind::kEndStep, .input = input}));
  return std::move(reply.report);
}

absl::StatusOr<StepReport> Runtime::Flush() {
  STRATA_ASSIGN_OR_RETURN(EngineReply reply, state_->Call({.kind = EngineCall::Kind::kFlush}));
  return std::move(reply.report);
}

absl::StatusOr<std::string> Runtime::ParametersSha256() {
  STRATA_ASSIGN_OR_RETURN(EngineReply reply, state_->Call({.kind = EngineCall::Kind::kDigest}));
  return std::move(reply.digest);
}

MemoryReport Runtime::memory() const {
  return state_->engine == nullptr ? MemoryReport{} : state_->engine->memory();
}

absl::Status Runtime::Shutdown(absl::Status why) {
  State& state = *state_;
  if (state.left) return absl::OkStatus();
  state.left = true;
  const absl::Status left = state.world->Leave(std::move(why));
  if (state.engine == nullptr) return left;
  state.EndEngine();
  if (state.options.trace.empty()) return left;
  const absl::Status written = state.engine->WriteTrace(state.options.trace);
  return left.ok() ? written : left;
}

}  // namespace strata
