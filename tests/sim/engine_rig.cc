#include "tests/sim/engine_rig.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/toy_model.h"

namespace strata {

std::vector<AppAction> OrdinaryTraining(const TrainingShape& shape) {
  using Kind = AppAction::Kind;
  std::vector<AppAction> actions;
  for (int step = 0; step < shape.steps; ++step) {
    for (int micro = 0; micro < shape.accumulation; ++micro) {
      for (int u = 0; u < shape.units; ++u) {
        actions.push_back({.kind = Kind::kAcquire, .unit = UnitId{u}, .phase = Phase::kForward});
        actions.push_back({.kind = Kind::kCompute, .compute = shape.forward});
        actions.push_back({.kind = Kind::kRelease, .unit = UnitId{u}});
      }
      for (int u = shape.units - 1; u >= 0; --u) {
        const UnitId unit{u};
        actions.push_back({.kind = Kind::kAcquire, .unit = unit, .phase = Phase::kBackward});
        actions.push_back({.kind = Kind::kCompute, .compute = shape.backward});
        actions.push_back({.kind = Kind::kGradient, .unit = unit, .step = step, .micro = micro});
        actions.push_back({.kind = Kind::kReduce, .unit = unit});
        actions.push_back({.kind = Kind::kRelease, .unit = unit});
      }
    }
    actions.push_back({.kind = Kind::kEndStep, .step = step});
  }
  actions.push_back({.kind = Kind::kFlush});
  actions.push_back({.kind = Kind::kDigest});
  return actions;
}

EngineRig::EngineRig(RigOptions options)
    : options_(std::move(options)), cluster_(options_.cluster) {
  const absl::StatusOr<Layout> layout = ParseLayout(options_.layout, cluster_.topology());
  if (!layout.ok()) {
    created_ = layout.status();
    return;
  }
  options_.engine.layout = *layout;
  ranks_.resize(static_cast<size_t>(cluster_.topology().size()));
  for (int rank = 0; rank < cluster_.topology().size() && created_.ok(); ++rank) {
    created_ = Create(Rank{rank});
  }
}

EngineRig::~EngineRig() = default;

absl::Status EngineRig::Create(Rank rank) {
  PerRank& self = ranks_[Index(rank)];
  const Topology& topology = cluster_.topology();
  self.shared = std::make_unique<MemfdMemory>();
  self.memory = std::make_unique<ShardMemory>(*self.shared);
  self.table = std::make_unique<UnitTable>(topology, rank, options_.engine, *self.memory);
  for (size_t u = 0; u < options_.units.size(); ++u) {
    UnitSpec spec{.name = absl::StrCat("h.", u)};
    for (size_t p = 0; p < options_.units[u].size(); ++p) {
      spec.parameters.push_back(
          {.name = absl::StrCat("h.", u, ".", p), .elements = options_.units[u][p]});
    }
    const UnitShape shape = MakeUnitShape(spec);
    const absl::StatusOr<UnitId> id =
        self.table->Add(spec, [&](int parameter, int64_t first, std::span<float> values) {
          for (size_t i = 0; i < values.size(); ++i) {
            values[i] = toy::Initial(options_.seed, static_cast<int>(u),
                                     shape.offsets[parameter] + first + static_cast<int64_t>(i));
          }
        });
    if (!id.ok()) return id.status();
  }
  self.views.resize(options_.units.size());
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create({.control = cluster_.control(rank),
                      .gather = cluster_.gather(rank),
                      .reduce = cluster_.reduce(rank),
                      .topology = topology,
                      .self = rank,
                      .shared = *self.shared,
                      .memory = *self.memory},
                     options_.engine, std::move(self.table->units()));
  if (!engine.ok()) return engine.status();
  self.engine = *std::move(engine);
  return absl::OkStatus();
}

void EngineRig::Run(const std::function<std::vector<AppAction>(Rank)>& program,
                    absl::Duration deadline) {
  for (int r = 0; r < cluster_.topology().size(); ++r) {
    const Rank rank{r};
    ranks_[r].actions = program(rank);
    ranks_[r].next = 0;
    ranks_[r].result = {};
    if (agreed_) {
      cluster_.control(rank).Post([this, rank] { Next(rank); });
      continue;
    }
    cluster_.control(rank).Post([this, rank] {
      engine(rank).OnCall({.kind = EngineCall::Kind::kAgree},
                          [this, rank](absl::StatusOr<EngineReply> reply) {
                            OnReply(rank, {.kind = AppAction::Kind::kCompute}, std::move(reply));
                          });
    });
  }
  agreed_ = true;
  cluster_.RunUntil(
      [this] {
        return std::all_of(ranks_.begin(), ranks_.end(),
                           [](const PerRank& rank) { return rank.result.ended; });
      },
      cluster_.Now() + deadline);
}

void EngineRig::Next(Rank rank) {
  using Kind = AppAction::Kind;
  PerRank& self = ranks_[Index(rank)];
  SimLoop& loop = cluster_.control(rank);
  if (self.next == self.actions.size()) {
    self.result.ended = true;
    self.result.end = loop.Now();
    return;
  }
  const AppAction& action = self.actions[self.next++];
  switch (action.kind) {
    case Kind::kCompute:
      if (action.compute == absl::ZeroDuration()) return Next(rank);
      loop.PostAt(loop.Now() + action.compute, [this, rank] { Next(rank); });
      return;
    case Kind::kGradient:
      WriteGradient(rank, action);
      return Next(rank);
    case Kind::kAcquire:
      return Call(rank,
                  {.kind = EngineCall::Kind::kAcquire, .unit = action.unit, .phase = action.phase},
                  action);
    case Kind::kReduce:
      return Call(rank, {.kind = EngineCall::Kind::kReduce, .unit = action.unit}, action);
    case Kind::kRelease:
      return Call(rank, {.kind = EngineCall::Kind::kRelease, .unit = action.unit}, action);
    case Kind::kEndStep: {
      const float loss = toy::Noise({options_.seed, Index(rank), action.step, 0}, 0, 0);
      return Call(
          rank,
          {.kind = EngineCall::Kind::kEndStep, .input = {.loss = loss, .tokens = Index(rank) + 1}},
          action);
    }
    case Kind::kFlush:
      return Call(rank, {.kind = EngineCall::Kind::kFlush}, action);
    case Kind::kDigest:
      return Call(rank, {.kind = EngineCall::Kind::kDigest}, action);
  }
}

void EngineRig::Call(Rank rank, EngineCall call, const AppAction& action) {
  const absl::Time begin = cluster_.control(rank).Now();
  engine(rank).OnCall(
      std::move(call), [this, rank, action, begin](absl::StatusOr<EngineReply> reply) {
        longest_call_ = std::max(longest_call_, cluster_.control(rank).Now() - begin);
        OnReply(rank, action, std::move(reply));
      });
}

void EngineRig::OnReply(Rank rank, const AppAction& action, absl::StatusOr<EngineReply> reply) {
  PerRank& self = ranks_[Index(rank)];
  if (!reply.ok()) {
    self.result.status = reply.status();
    self.result.ended = true;
    self.result.end = cluster_.control(rank).Now();
    return;
  }
  using Kind = AppAction::Kind;
  if (action.kind == Kind::kAcquire) self.views[Index(action.unit)] = reply->view;
  if (action.kind == Kind::kEndStep || action.kind == Kind::kFlush) {
    self.result.reports.push_back(reply->report);
  }
  if (action.kind == Kind::kDigest) self.result.digest = reply->digest;
  Next(rank);
}

void EngineRig::WriteGradient(Rank rank, const AppAction& action) {
  const int unit = Index(action.unit);
  const UnitView& view = ranks_[Index(rank)].views[unit];
  const UnitShape& shape = engine(rank).units()[unit].shape;
  const toy::Data data{options_.seed, Index(rank), action.step, action.micro};
  const std::optional<Poison>& poison = options_.poison;
  if (poison && poison->rank == rank && poison->unit == action.unit &&
      poison->step == action.step) {
    static_cast<float*>(view.gradients)[0] = std::numeric_limits<float>::infinity();
    return;
  }
  for (size_t p = 0; p < options_.units[unit].size(); ++p) {
    for (int64_t e = 0; e < options_.units[unit][p]; ++e) {
      const int64_t at = shape.offsets[p] + e;
      if (options_.engine.compute_dtype == DType::kF32) {
        const float value = static_cast<const float*>(view.parameters)[at];
        static_cast<float*>(view.gradients)[at] = toy::Gradient(value, data, unit, at);
      } else {
        const float value = toy::Widen(static_cast<const uint16_t*>(view.parameters)[at]);
        static_cast<uint16_t*>(view.gradients)[at] =
            toy::Narrow(toy::Gradient(value, data, unit, at));
      }
    }
  }
}

}  // namespace strata
