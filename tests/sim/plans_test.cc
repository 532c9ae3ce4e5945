// Gathers and reduces of real layouts on simulated clusters in bad weather: bits, bytes and ends.
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "comm/layout.h"
#include "comm/plan.h"
#include "comm/shard_layout.h"
#include "comm/sim/sim_cluster.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/shapes.h"
#include "tests/support/sim_collective.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr int64_t kChunkBytes = 2048;
const absl::Time kStart = absl::UnixEpoch();
const absl::Time kEnd = kStart + absl::Minutes(10);

const std::vector<std::vector<int>> kShapes = {
    {4}, {2, 2}, {1, 1, 1, 1}, {3, 2}, {1, 1, 1, 1, 1}, {2, 2, 2}, {1, 4, 2}};
const std::vector<std::string> kPresets = {"zero3", "iig", "hsdp", "across"};

Topology Cluster(const std::vector<int>& ranks) {
  constexpr Link kFast{.bytes_per_second = 1'000'000'000, .latency = absl::Microseconds(5)};
  constexpr Link kSlow{.bytes_per_second = 12'500'000, .latency = absl::Microseconds(100)};
  return *Topology::Create(
      {{"node", ranks, kFast}, {"cluster", {static_cast<int>(ranks.size())}, kSlow}});
}

// The plans of one collective, its inputs, and its outputs as the interpreter works them out.
struct Expected {
  std::vector<std::shared_ptr<const Plan>> plans;
  std::vector<Bytes> inputs, outputs;
};

std::vector<Bytes> RandomInputs(const std::vector<Plan>& plans) {
  std::mt19937 random(7);
  std::vector<Bytes> inputs;
  for (const Plan& plan : plans) {
    Bytes input(plan.input_bytes);
    for (size_t at = 0; at < input.size(); at += 4) {
      const float value = static_cast<float>(static_cast<int>(random() % 20001) - 10000) /
                          static_cast<float>(1 + random() % 997);
      std::memcpy(input.data() + at, &value, 4);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Expected Expect(const std::vector<Plan>& plans, std::vector<Bytes> inputs) {
  auto outputs = InterpretPlans(plans, inputs, 1);
  EXPECT_OK(outputs);
  Expected expected{.inputs = std::move(inputs), .outputs = *std::move(outputs)};
  for (const Plan& plan : plans) expected.plans.push_back(std::make_shared<const Plan>(plan));
  return expected;
}

struct Scenario {
  Topology topology;
  std::vector<Expected> gathers, reduces;
};

// Two gathers and two reduces of a preset, of units of different sizes.
Scenario MakeScenario(const std::vector<int>& shape, const std::string& preset) {
  Scenario scenario{.topology = Cluster(shape)};
  const Topology& topology = scenario.topology;
  const Layout layout = *ParseLayout(preset, topology);
  for (const int64_t elements : {10007, 257}) {
    const UnitShards shards = *MakeUnitShards(topology, layout, elements);
    const PlanOptions options{.chunk_bytes = kChunkBytes};
    std::vector<Plan> gathers, reduces;
    for (int rank = 0; rank < topology.size(); ++rank) {
      gathers.push_back(*PlanGather(topology, shards.parameters, shards.full, Rank{rank}, options));
      reduces.push_back(*PlanReduce(topology, shards.full, shards.gradients, layout.gradients,
                                    Rank{rank}, options));
    }
    // What two ranks hold of one element is the same.
    std::vector<Bytes> held;
    const std::vector<Bytes> unit = RandomInputs({Plan{.input_bytes = elements * 4}});
    for (int rank = 0; rank < topology.size(); ++rank) {
      Bytes packed;
      for (const ElementRange& range : shards.parameters.Owned(Rank{rank})) {
        packed.insert(packed.end(), unit[0].begin() + range.begin * 4,
                      unit[0].begin() + range.end * 4);
      }
      held.push_back(std::move(packed));
    }
    scenario.gathers.push_back(Expect(gathers, std::move(held)));
    scenario.reduces.push_back(Expect(reduces, RandomInputs(reduces)));
  }
  return scenario;
}

SimFaults Weather(uint64_t seed) {
  return {.start_skew = absl::Milliseconds(seed % 3 * 4),
          .task_delay = absl::Microseconds(seed % 2 * 40),
          .message_delay = absl::Microseconds(seed % 5 * 150),
          .stalls = static_cast<int>(seed % 4),
          .stall_length = absl::Milliseconds(8),
          .stall_window = absl::Milliseconds(12)};
}

// Both lanes at work at once. Collectives of a lane are of equal priority or reversed.
class Runs {
 public:
  Runs(SimCluster& cluster, const Scenario& scenario, absl::Time deadline, uint64_t seed) {
    Add(cluster, &SimCluster::gather, scenario.gathers, deadline, seed);
    Add(cluster, &SimCluster::reduce, scenario.reduces, deadline, seed);
  }

  void ExpectBits() const {
    for (const auto& [expected, collective] : runs_) {
      ASSERT_NO_FATAL_FAILURE(collective->ExpectComplete());
      for (size_t rank = 0; rank < expected->plans.size(); ++rank) {
        ASSERT_TRUE(
            std::ranges::equal(collective->output(static_cast<int>(rank)), expected->outputs[rank]))
            << expected->plans[rank]->name << " at rank " << rank;
      }
    }
  }

  template <typename Check>  // Check(expected, collective)
  void ForEach(const Check& check) const {
    for (const auto& [expected, collective] : runs_) check(*expected, *collective);
  }

 private:
  void Add(SimCluster& cluster, SimCollective::LaneOf lane, const std::vector<Expected>& all,
           absl::Time deadline, uint64_t seed) {
    uint32_t operation = 0;
    for (const Expected& expected : all) {
      auto collective = std::make_unique<SimCollective>(cluster, lane, expected.plans,
                                                        expected.inputs, kChunkBytes * 2);
      collective->Start({.what = expected.plans[0]->name,
                         .operation = operation,
                         .order = operation * 77,
                         .priority = seed % 2 == 0 ? 5 - operation : operation,
                         .deadline = deadline});
      runs_.emplace_back(&expected, std::move(collective));
      ++operation;
    }
  }

  std::vector<std::pair<const Expected*, std::unique_ptr<SimCollective>>> runs_;
};

SimClusterOptions Options(const Scenario& scenario, uint64_t seed) {
  const int64_t credit = seed % 3 == 0 ? 1 : kChunkBytes * static_cast<int64_t>(1 + seed % 7);
  return {.topology = scenario.topology,
          .seed = seed,
          .faults = Weather(seed),
          .credit_bytes = {credit, credit},
          .kernel_bytes_per_second = seed % 2 == 0 ? 0 : 2'000'000'000};
}

void ExpectNodeBytes(SimCluster& cluster, const Scenario& scenario) {
  // What the links carried is what the plans say: all groups, both lanes.
  for (int level = 0; level < 2; ++level) {
    std::map<std::pair<int, int>, int64_t> planned, carried;
    for (int rank = 0; rank < scenario.topology.size(); ++rank) {
      const std::pair<int, int> child(scenario.topology.Group(Rank{rank}, level),
                                      scenario.topology.ChildIndex(Rank{rank}, level));
      carried[child] = cluster.network().SentBytes(Rank{rank}, level);
      for (const auto* all : {&scenario.gathers, &scenario.reduces}) {
        for (const Expected& expected : *all) {
          planned[child] += CountWireBytes(*expected.plans[rank], level).sent;
        }
      }
    }
    EXPECT_EQ(carried, planned) << "level " << level;
  }
}

TEST(PlansTest, SameBitsAndBytesUnderAllSeeds) {
  std::map<std::string, int64_t> probes;
  uint64_t seed = 0;
  for (const auto& shape : kShapes) {
    for (const std::string& preset : kPresets) {
      const Scenario scenario = MakeScenario(shape, preset);
      for (int repeat = 0; repeat < 12; ++repeat) {
        SimCluster cluster(Options(scenario, ++seed));
        const Runs runs(cluster, scenario, absl::InfiniteFuture(), seed);
        ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
        ASSERT_NO_FATAL_FAILURE(runs.ExpectBits()) << preset << " seed " << seed;
        ExpectNodeBytes(cluster, scenario);
        for (const auto& [name, count] : cluster.world().probes()) probes[name] += count;
      }
    }
  }
  for (const auto& [name, count] : probes) {
    std::printf("%s: %lld\n", name.c_str(), static_cast<long long>(count));
  }
  EXPECT_GT(probes["message before its receive"], 0);
  EXPECT_GT(probes["rank stall"], 0);
  EXPECT_GT(probes["link stall"], 0);
}

TEST(PlansTest, SameSeedSameTraceAndOtherSeedOtherTrace) {
  const Scenario scenario = MakeScenario({3, 2}, "zero3");
  const auto trace = [&](uint64_t seed) {
    SimCluster cluster(Options(scenario, seed));
    const Runs runs(cluster, scenario, absl::InfiniteFuture(), seed);
    EXPECT_TRUE(cluster.RunUntilIdle(kEnd));
    return cluster.world().trace_hash();
  };
  std::map<uint64_t, uint64_t> traces;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const uint64_t hash = trace(seed);
    EXPECT_EQ(trace(seed), hash);
    EXPECT_TRUE(traces.emplace(hash, seed).second) << "as of seed " << traces[hash];
  }
}

TEST(PlansTest, KilledRankEndsEveryOperationByItsDeadline) {
  std::map<absl::StatusCode, int> codes;
  uint64_t seed = 0;
  for (const auto& shape : kShapes) {
    for (const std::string& preset : kPresets) {
      const Scenario scenario = MakeScenario(shape, preset);
      for (int repeat = 0; repeat < 6; ++repeat) {
        SimCluster cluster(Options(scenario, ++seed));
        const absl::Time deadline = kStart + absl::Seconds(2);
        const Runs runs(cluster, scenario, deadline, seed);
        const int victim = static_cast<int>(seed % scenario.topology.size());
        cluster.Kill(Rank{victim}, kStart + absl::Microseconds(seed * 131 % 9000),
                     seed % 2 == 0 ? SimNetwork::Death::kReset : SimNetwork::Death::kSilent);
        ASSERT_TRUE(cluster.RunUntilIdle(kEnd));
        runs.ForEach([&](const Expected& expected, const SimCollective& collective) {
          for (int rank = 0; rank < scenario.topology.size(); ++rank) {
            if (rank == victim) continue;
            ASSERT_TRUE(collective.result(rank).has_value()) << "seed " << seed << " rank " << rank;
            const absl::Status& status = *collective.result(rank);
            ++codes[status.code()];
            // Delays within the loop come on top.
            EXPECT_LE(collective.end_time(rank), deadline + absl::Milliseconds(10));
            if (!status.ok()) continue;
            EXPECT_TRUE(std::ranges::equal(collective.output(rank), expected.outputs[rank]));
          }
        });
      }
    }
  }
  for (const auto& [code, count] : codes) {
    std::printf("%s: %d\n", absl::StatusCodeToString(code).c_str(), count);
  }
  EXPECT_GT(codes[absl::StatusCode::kUnavailable], 0);
  EXPECT_GT(codes[absl::StatusCode::kDeadlineExceeded], 0);
  EXPECT_GT(codes[absl::StatusCode::kOk], 0);
  EXPECT_EQ(codes.size(), 3u);
}

}  // namespace
}  // namespace strata
