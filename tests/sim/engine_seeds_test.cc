// Random programs on random clusters with random faults, each from one seed: results equal the
// reference bit for bit, every call ends by its deadline, memory stays in its budget, and a seed
// gives the same trace twice. STRATA_SIM_SEEDS says how many (default 200).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/engine_rig.h"
#include "tests/sim/reference.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

int Seeds() {
  int seeds = 200;
  const char* const text = std::getenv("STRATA_SIM_SEEDS");
  if (text != nullptr) STRATA_CHECK(absl::SimpleAtoi(text, &seeds));
  return seeds;
}

// Everything that one seed decides.
class Scenario {
 public:
  explicit Scenario(uint64_t seed) : seed_(seed), random_(seed) {
    nodes = Pick<std::vector<int>>({{2, 2}, {4}, {1, 1, 1}, {2, 1}, {3}, {2}, {1, 2, 2}});
    layout = Pick<std::string>({"ddp", "zero1", "zero2", "zero3", "hsdp", "iig", "across"});
    accumulation = Pick<int>({1, 1, 2, 3});
    steps = 2 + Below(2);
    compute = Pick<DType>({DType::kF32, DType::kF32, DType::kBf16});
    clip = Pick<float>({0.0f, 0.01f});
    prefetch_bytes = Pick<int64_t>({512 << 10, 1 << 20, 8 << 20});
    const int count = 1 + Below(6);
    for (int u = 0; u < count; ++u) {
      units.push_back({Below(3) == 0 ? Below(300) : 1 + Below(20000)});
      if (Below(2) == 0) units.back().push_back(Below(500));
    }
    MakeProgram();
  }

  RigOptions Rig() {
    RigOptions options;
    std::vector<Level> levels = {
        {.name = "node", .children = nodes, .link = {1'000'000'000, absl::Microseconds(5)}},
        {.name = "cluster",
         .children = {static_cast<int>(nodes.size())},
         .link = {50'000'000, absl::Microseconds(100)}}};
    options.cluster.topology = *Topology::Create(std::move(levels));
    options.cluster.seed = seed_;
    options.cluster.credit_bytes.assign(2, Pick<int64_t>({1, 16 << 10, 1 << 20}));
    options.cluster.kernel_bytes_per_second = Pick<int64_t>({0, 1'000'000'000});
    options.cluster.faults = {.start_skew = absl::Milliseconds(Below(20)),
                              .task_delay = absl::Microseconds(Below(50)),
                              .message_delay = absl::Microseconds(Below(300)),
                              .stalls = Below(4),
                              .stall_length = absl::Milliseconds(200),
                              .stall_window = absl::Milliseconds(300)};
    options.units = units;
    options.layout = layout;
    options.engine.accumulation = accumulation;
    options.engine.compute_dtype = options.engine.gradient_dtype = compute;
    options.engine.prefetch_bytes = prefetch_bytes;
    options.engine.chunk_bytes = Pick<int64_t>({4096, 16384, 65536});
    options.engine.clip = clip;
    options.engine.timeout = kTimeout;
    options.engine.optimizer.groups[0] = {.learning_rate = 1e-2f, .weight_decay = 0.1f};
    options.seed = seed_;
    // Most transports end a send that comes early only when its receive is posted.
    options.cluster.early_bytes =
        Pick<int64_t>({SimNetwork::kUnlimited, SimNetwork::kUnlimited, 0, 4096, 256 << 10});
    return options;
  }

  ReferenceRun Reference() const {
    return {.nodes = nodes,
            .units = units,
            .steps = steps,
            .accumulation = accumulation,
            .levels_per_micro_step = layout == "ddp" || layout == "zero1"     ? 0
                                     : layout == "zero2" || layout == "zero3" ? 2
                                                                              : 1,
            .compute_dtype = compute,
            .gradient_dtype = compute,
            .clip = clip,
            .seed = seed_,
            .has_gradient = [this](int rank, int step, int micro, int unit) {
              return !missing_.contains({rank, step, micro, unit});
            }};
  }

  std::vector<AppAction> Program(Rank rank) const { return programs_[Index(rank)]; }

  static constexpr absl::Duration kTimeout = absl::Seconds(5);
  std::vector<int> nodes;
  std::string layout;
  int accumulation = 1, steps = 1;
  DType compute{};
  float clip = 0;
  int64_t prefetch_bytes = 0;
  std::vector<std::vector<int64_t>> units;

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  int ranks() const { return std::accumulate(nodes.begin(), nodes.end(), 0); }

 private:
  using Kind = AppAction::Kind;

  template <typename T>
  T Pick(std::vector<T> from) {
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }

  void Everyone(const AppAction& action) {
    for (std::vector<AppAction>& program : programs_) program.push_back(action);
  }
  void Compute() {
    for (std::vector<AppAction>& program : programs_) {
      program.push_back({.kind = Kind::kCompute, .compute = absl::Microseconds(Below(500))});
    }
  }

  // A use of the unit other than backward: plain, nested, or seen twice.
  void Use(UnitId unit, Phase phase) {
    const int times = Below(8) == 0 ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      Everyone({.kind = Kind::kAcquire, .unit = unit, .phase = phase});
    }
    Compute();
    for (int i = 0; i < times; ++i) Everyone({.kind = Kind::kRelease, .unit = unit});
  }

  void Backward(UnitId unit, int step, int micro) {
    const bool replicated = layout == "ddp" || layout == "zero1";
    const bool recompute = Below(4) == 0;
    if (recompute) Everyone({.kind = Kind::kAcquire, .unit = unit, .phase = Phase::kRecompute});
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<AppAction>& program = programs_[rank];
      const bool last = micro == accumulation - 1;
      const bool absent = replicated && last && Below(10) == 0;
      const bool without = absent || Below(10) == 0;
      if (without) missing_.insert({rank, step, micro, Index(unit)});
      if (absent) continue;
      program.push_back({.kind = Kind::kAcquire, .unit = unit, .phase = Phase::kBackward});
      program.push_back({.kind = Kind::kCompute, .compute = absl::Microseconds(Below(1000))});
      program.push_back({.kind = Kind::kGradient, .unit = unit, .step = step, .micro = micro});
      if (!without) program.push_back({.kind = Kind::kReduce, .unit = unit});
      program.push_back({.kind = Kind::kRelease, .unit = unit});
    }
    if (recompute) Everyone({.kind = Kind::kRelease, .unit = unit});
  }

  void MakeProgram() {
    programs_.resize(static_cast<size_t>(ranks()));
    std::vector<int> order(units.size());
    std::iota(order.begin(), order.end(), 0);
    for (int step = 0; step < steps; ++step) {
      for (int micro = 0; micro < accumulation; ++micro) {
        if (Below(4) == 0) std::shuffle(order.begin(), order.end(), random_);
        for (int u : order) {
          if (Below(12) != 0) Use(UnitId{u}, Phase::kForward);
        }
        for (auto u = order.rbegin(); u != order.rend(); ++u) {
          if (Below(12) == 0) {
            // Nobody uses it; of a later micro-step the next reduce would take its place.
            for (int rank = 0; rank < ranks(); ++rank) missing_.insert({rank, step, micro, *u});
          } else {
            Backward(UnitId{*u}, step, micro);
          }
        }
      }
      Everyone({.kind = Kind::kEndStep, .step = step});
      if (Below(3) == 0) {
        for (int u : order) Use(UnitId{u}, Phase::kEval);
      }
      if (Below(3) == 0) Everyone({.kind = Kind::kFlush});
    }
    Everyone({.kind = Kind::kFlush});
    Everyone({.kind = Kind::kDigest});
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::vector<AppAction>> programs_;
  std::set<std::array<int, 4>> missing_;  // rank, step, micro, unit
};

TEST(Seeds, HoldTheOracles) {
  for (int seed = 1; seed <= Seeds(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Scenario scenario(static_cast<uint64_t>(seed));
    const RigOptions options = scenario.Rig();
    EngineRig rig(options);
    ASSERT_OK(rig.created());
    rig.Run([&](Rank rank) { return scenario.Program(rank); }, absl::Minutes(10));
    const std::string expected = RunReference(scenario.Reference()).digest;
    for (int rank = 0; rank < scenario.ranks(); ++rank) {
      const EngineRig::RankResult& result = rig.result(Rank{rank});
      ASSERT_TRUE(result.ended) << scenario.layout;
      ASSERT_OK(result.status) << scenario.layout;
      ASSERT_EQ(result.digest, expected) << scenario.layout << " rank " << rank;
      for (const StepReport& report : result.reports) {
        ASSERT_LE(report.peak_unit_bytes, scenario.prefetch_bytes);
        for (const StepReport::PerLevel& level : report.levels) {
          ASSERT_EQ(level.sent_bytes, level.planned_sent_bytes);
          ASSERT_EQ(level.received_bytes, level.planned_received_bytes);
        }
      }
    }
    if (seed % 8 != 0) continue;
    EngineRig again(options);
    again.Run([&](Rank rank) { return scenario.Program(rank); }, absl::Minutes(10));
    ASSERT_EQ(again.cluster().world().trace_hash(), rig.cluster().world().trace_hash());
  }
}

TEST(Seeds, ALostRankEndsEveryCallByItsDeadline) {
  int ended_early = 0;
  for (int seed = 1; seed <= Seeds() / 2; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Scenario scenario(static_cast<uint64_t>(seed));
    if (scenario.ranks() < 2) continue;
    EngineRig rig(scenario.Rig());
    ASSERT_OK(rig.created());
    const Rank lost{scenario.Below(scenario.ranks())};
    const bool silent = scenario.Below(2) == 0;
    rig.cluster().Kill(lost, rig.cluster().Now() + absl::Milliseconds(scenario.Below(100)),
                       silent ? SimNetwork::Death::kSilent : SimNetwork::Death::kReset);
    rig.Run([&](Rank rank) { return scenario.Program(rank); }, absl::Minutes(10));
    for (int rank = 0; rank < scenario.ranks(); ++rank) {
      if (Rank{rank} == lost) continue;
      const EngineRig::RankResult& result = rig.result(Rank{rank});
      ASSERT_TRUE(result.ended) << "rank " << rank;
      ASSERT_LE(rig.longest_call(), Scenario::kTimeout + absl::Seconds(1));
      if (result.status.ok()) {
        ++ended_early;
        continue;
      }
      const std::string message(result.status.message());
      if (!silent) {
        ASSERT_THAT(message, testing::HasSubstr(absl::StrCat("peer ", Index(lost))));
      }
    }
  }
  // Killed after the last byte, a rank is not missed: that must stay rare, or nothing was tested.
  EXPECT_LE(ended_early, Seeds());
}

}  // namespace
}  // namespace strata
