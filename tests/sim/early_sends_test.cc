// Engines over a transport that keeps little or nothing of what comes before its receive: ranks
// that run ahead wait for their peers, and must not wait for each other.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/engine_rig.h"
#include "tests/sim/reference.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using Units = std::vector<std::vector<int64_t>>;

const Units kUnits = {{9001}, {30011}, {1}, {20011, 7}, {30011}, {4099}};
const std::vector<int> kNodes = {1, 2, 2};

struct Case {
  std::string layout;
  int accumulation = 1;
  int64_t early_bytes = 0;
};

RigOptions MakeRig(const Case& c, uint64_t seed) {
  RigOptions options;
  options.cluster.topology = *Topology::Create(
      {{.name = "node", .children = kNodes, .link = {1'000'000'000, absl::Microseconds(5)}},
       {.name = "cluster",
        .children = {static_cast<int>(kNodes.size())},
        .link = {50'000'000, absl::Microseconds(100)}}});
  options.cluster.seed = seed;
  options.cluster.early_bytes = c.early_bytes;
  // One send at a time, or two of a chunk each.
  options.cluster.credit_bytes.assign(2, seed % 4 == 0 ? 32 << 10 : 1);
  options.cluster.faults = {.start_skew = absl::Milliseconds(static_cast<int64_t>(seed % 3) * 10),
                            .task_delay = absl::Microseconds(50),
                            .message_delay = absl::Microseconds(300),
                            .stalls = 3,
                            .stall_length = absl::Milliseconds(50),
                            .stall_window = absl::Milliseconds(100)};
  options.units = kUnits;
  options.layout = c.layout;
  options.engine.accumulation = c.accumulation;
  options.engine.prefetch_bytes = 1 << 20;
  options.engine.chunk_bytes = 16384;
  options.engine.timeout = absl::Seconds(5);
  options.engine.optimizer.groups[0] = {.learning_rate = 1e-2f, .weight_decay = 0.1f};
  options.seed = seed;
  return options;
}

class EarlySends : public testing::TestWithParam<Case> {};

TEST_P(EarlySends, DoNotKeepRanksFromEachOther) {
  const Case& c = GetParam();
  int64_t waited = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    EngineRig rig(MakeRig(c, seed));
    ASSERT_OK(rig.created());
    rig.Run(
        [&](Rank rank) {
          return OrdinaryTraining({.units = static_cast<int>(kUnits.size()),
                                   .steps = 1,
                                   .accumulation = c.accumulation,
                                   .forward = absl::Microseconds(50),
                                   .backward = absl::Microseconds(100 + 100 * Index(rank))});
        },
        absl::Minutes(10));
    const std::string expected =
        RunReference({.nodes = kNodes,
                      .units = kUnits,
                      .steps = 1,
                      .accumulation = c.accumulation,
                      .levels_per_micro_step = c.layout == "zero2" || c.layout == "zero3" ? 2 : 1,
                      .seed = seed})
            .digest;
    for (int rank = 0; rank < rig.cluster().topology().size(); ++rank) {
      const EngineRig::RankResult& result = rig.result(Rank{rank});
      ASSERT_TRUE(result.ended);
      ASSERT_OK(result.status);
      ASSERT_EQ(result.digest, expected) << "rank " << rank;
    }
    const auto& probes = rig.cluster().world().probes();
    const auto found = probes.find("send waits for its receive");
    if (found != probes.end()) waited += found->second;
  }
  EXPECT_GT(waited, 0) << "no send came early";
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* layout : {"zero3", "zero2", "hsdp", "iig"}) {
    for (const int accumulation : {1, 4}) {
      for (const int64_t early_bytes : {0, 20000}) {
        cases.push_back({layout, accumulation, early_bytes});
      }
    }
  }
  return cases;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return absl::StrCat(c.layout, "_A", c.accumulation, "_early", c.early_bytes);
}

INSTANTIATE_TEST_SUITE_P(Layouts, EarlySends, testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace strata
