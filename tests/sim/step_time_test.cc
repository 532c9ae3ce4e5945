#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/ideal_step.h"
#include "tests/sim/engine_rig.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr int kUnits = 16;
constexpr int64_t kElements = 16 << 10;  // of each: 64 KiB
constexpr int64_t kBytes = kUnits * kElements * 4;
constexpr int64_t kRate = 25'000'000;  // bytes per second between nodes

struct Case {
  std::string layout;
  double compute = 1;  // of one micro-step, in times of moving all parameters between nodes once
  int accumulation = 1;
};

class StepTime : public testing::TestWithParam<Case> {};

// Two nodes of two ranks: half of the parameters cross the link between nodes in one gather.
absl::Duration Traffic() { return absl::Seconds(static_cast<double>(kBytes) / 2 / kRate); }

// What the ideal step leaves out: nothing overlaps the first gather and the last reduce.
absl::Duration Ends(const std::string& layout) {
  const absl::Duration unit = Traffic() / kUnits;
  if (layout == "zero3") return 2 * unit;
  if (layout == "zero2") return 2 * unit;
  return 3 * unit;  // the reduce is a whole all-reduce, or goes on with a publish
}

TEST_P(StepTime, IsIdealBesidesTheEnds) {
  const Case& c = GetParam();
  const absl::Duration compute = c.compute * Traffic();
  RigOptions options;
  options.cluster.topology = *Topology::Create(
      {{.name = "node", .children = {2, 2}, .link = {2'500'000'000, absl::Microseconds(2)}},
       {.name = "cluster", .children = {2}, .link = {kRate, absl::Microseconds(20)}}});
  options.units.assign(kUnits, {kElements});
  options.layout = c.layout;
  options.engine.accumulation = c.accumulation;
  options.engine.prefetch_bytes = 4 << 20;
  options.engine.chunk_bytes = 4 << 10;
  options.cluster.credit_bytes = {1 << 20, 8 << 10};
  EngineRig rig(options);
  ASSERT_OK(rig.created());
  rig.Run(
      [&](Rank) {
        return OrdinaryTraining({.units = kUnits,
                                 .steps = 3,
                                 .accumulation = c.accumulation,
                                 .forward = compute / 3 / kUnits,
                                 .backward = compute * 2 / 3 / kUnits});
      },
      absl::Hours(1));
  ASSERT_OK(rig.result(Rank{0}).status);
  const StepShape shape{.layout = *ParseLayout(c.layout, options.cluster.topology),
                        .accumulation = c.accumulation,
                        .forward = compute / 3,
                        .backward = compute * 2 / 3,
                        .parameter_bytes = kBytes,
                        .gradient_bytes = kBytes};
  const absl::Duration ideal = IdealStep(shape, options.cluster.topology);
  // The first step is recorded, the last one's publish overlaps nothing.
  const absl::Duration step = rig.result(Rank{0}).reports[2].duration;
  EXPECT_LE(step, 1.02 * ideal + Ends(c.layout));
  // The ideal step lets nothing of a micro-step's reduces run in the next forward; buffers do.
  if (c.layout != "zero2" || c.accumulation == 1) {
    EXPECT_GE(step, ideal);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* layout : {"zero3", "hsdp", "iig", "zero2"}) {
    for (double compute : {0.2, 1.0, 2.0, 5.0}) {
      for (int accumulation : {1, 4}) cases.push_back({layout, compute, accumulation});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Bounds, StepTime, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return absl::StrCat(info.param.layout, "_",
                                               static_cast<int>(info.param.compute * 10), "_A",
                                               info.param.accumulation);
                         });

}  // namespace
}  // namespace strata
