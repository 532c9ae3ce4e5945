#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/engine_rig.h"
#include "tests/sim/reference.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using Units = std::vector<std::vector<int64_t>>;

// One element, primes, a multiple of the block, an empty parameter, more than a chunk.
const Units kUnits = {{1}, {700, 257}, {1024}, {0, 3}, {5003}};

struct Case {
  std::vector<int> nodes{2, 2};
  std::string layout = "zero3";
  int accumulation = 1;
  DType compute = DType::kF32, gradient = DType::kF32;
  float clip = 0;
  bool adam = true;
};

Topology TopologyOf(const std::vector<int>& nodes) {
  return *Topology::Create({{.name = "node", .children = nodes},
                            {.name = "cluster", .children = {static_cast<int>(nodes.size())}}});
}

int LevelsPerMicroStep(const std::string& layout) {
  if (layout == "ddp" || layout == "zero1") return 0;
  if (layout == "zero2" || layout == "zero3" || layout == "igg") return 2;
  return 1;
}

RigOptions MakeRig(const Case& c) {
  RigOptions options;
  options.cluster.topology = TopologyOf(c.nodes);
  options.units = kUnits;
  options.layout = c.layout;
  options.engine.accumulation = c.accumulation;
  options.engine.compute_dtype = c.compute;
  options.engine.gradient_dtype = c.gradient;
  options.engine.clip = c.clip;
  options.engine.prefetch_bytes = 1 << 20;
  options.engine.chunk_bytes = 4096;
  options.engine.optimizer.kind = c.adam ? OptimizerKind::kAdamW : OptimizerKind::kSgd;
  options.engine.optimizer.groups[0] = {
      .learning_rate = 1e-2f, .weight_decay = 0.1f, .momentum = c.adam ? 0.0f : 0.9f};
  return options;
}

ReferenceRun MakeReference(const Case& c) {
  return {.nodes = c.nodes,
          .units = kUnits,
          .accumulation = c.accumulation,
          .levels_per_micro_step = LevelsPerMicroStep(c.layout),
          .compute_dtype = c.compute,
          .gradient_dtype = c.gradient,
          .adam = c.adam,
          .momentum = c.adam ? 0.0f : 0.9f,
          .clip = c.clip};
}

std::vector<AppAction> Training(int accumulation) {
  return OrdinaryTraining(
      {.units = static_cast<int>(kUnits.size()), .steps = 3, .accumulation = accumulation});
}

class EqualsReference : public testing::TestWithParam<Case> {};

TEST_P(EqualsReference, BitForBit) {
  const Case& c = GetParam();
  EngineRig rig(MakeRig(c));
  ASSERT_OK(rig.created());
  rig.Run([&](Rank) { return Training(c.accumulation); }, absl::Hours(1));
  const ReferenceResult expected = RunReference(MakeReference(c));
  for (int rank = 0; rank < rig.cluster().topology().size(); ++rank) {
    const EngineRig::RankResult& result = rig.result(Rank{rank});
    ASSERT_TRUE(result.ended);
    ASSERT_OK(result.status);
    EXPECT_EQ(result.digest, expected.digest) << "rank " << rank;
    ASSERT_EQ(result.reports.size(), 4u);
    for (int step = 1; step <= 3; ++step) {
      EXPECT_EQ(result.reports[step].step, step);
      EXPECT_EQ(result.reports[step].norm_before_clip, expected.norms[step - 1]);
      EXPECT_EQ(result.reports[step].loss, expected.losses[step - 1]);
      for (const StepReport::PerLevel& level : result.reports[step].levels) {
        EXPECT_EQ(level.sent_bytes, level.planned_sent_bytes);
        EXPECT_EQ(level.received_bytes, level.planned_received_bytes);
      }
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::vector<std::vector<int>> shapes = {{1},       {4}, {2, 2}, {1, 1, 1, 1},
                                                {1, 1, 1}, {5}, {3, 3}, {2, 1}};
  for (const std::vector<int>& nodes : shapes) {
    for (const char* layout :
         {"ddp", "zero1", "zero2", "zero3", "hsdp", "iig", "across", "nig", "igg"}) {
      for (int accumulation : {1, 4}) {
        for (int variant = 0; variant < 3; ++variant) {
          cases.push_back({.nodes = nodes,
                           .layout = layout,
                           .accumulation = accumulation,
                           .compute = variant == 1 ? DType::kBf16 : DType::kF32,
                           .gradient = variant >= 1 ? DType::kBf16 : DType::kF32,
                           .clip = variant == 0 ? 0.0f : 0.01f,
                           .adam = variant != 2});
        }
      }
    }
  }
  return cases;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  std::string name = c.layout;
  for (int node : c.nodes) absl::StrAppend(&name, "_", node);
  absl::StrAppend(&name, "_A", c.accumulation, c.compute == DType::kF32 ? "_f32" : "_bf16",
                  c.gradient == DType::kF32 ? "_f32" : "_bf16", c.clip > 0 ? "_clip" : "",
                  c.adam ? "_adamw" : "_sgd");
  return name;
}

INSTANTIATE_TEST_SUITE_P(Everything, EqualsReference, testing::ValuesIn(Cases()), NameOf);

// Equality is worth what its controls are: each of these must give other bits.
TEST(NegativeControls, ChangeTheDigest) {
  // Three ranks per node: a tree of two leaves is the same from both ends.
  const Case c{.nodes = {3, 3}, .layout = "iig", .accumulation = 4};
  const std::string right = RunReference(MakeReference(c)).digest;
  EngineRig rig(MakeRig(c));
  ASSERT_OK(rig.created());
  rig.Run([&](Rank) { return Training(c.accumulation); }, absl::Hours(1));
  ASSERT_EQ(rig.result(Rank{0}).digest, right);

  ReferenceRun wrong = MakeReference(c);
  wrong.seed = 2;
  EXPECT_NE(RunReference(wrong).digest, right);
  wrong = MakeReference(c);
  wrong.swap_data = true;
  EXPECT_NE(RunReference(wrong).digest, right);
  wrong = MakeReference(c);
  wrong.reverse_tree = true;
  EXPECT_NE(RunReference(wrong).digest, right);
  wrong = MakeReference(c);
  wrong.has_gradient = [](int rank, int step, int micro, int) {
    return rank != 5 || step != 2 || micro != 3;
  };
  EXPECT_NE(RunReference(wrong).digest, right);
}

TEST(OneClass, HasOneDigestAndOtherClassesAnother) {
  const auto digest = [](const std::string& layout) {
    const Case c{.layout = layout, .accumulation = 4};
    EngineRig rig(MakeRig(c));
    rig.Run([&](Rank) { return Training(c.accumulation); }, absl::Hours(1));
    return rig.result(Rank{0}).digest;
  };
  EXPECT_EQ(digest("ddp"), digest("zero1"));
  EXPECT_EQ(digest("hsdp"), digest("across"));
  EXPECT_EQ(digest("zero2"), digest("igg"));
  EXPECT_NE(digest("ddp"), digest("zero3"));
}

TEST(Skip, OneInfiniteGradientOnOneRankMakesAllRanksSkip) {
  const Case c{.layout = "zero3"};
  RigOptions options = MakeRig(c);
  options.poison = Poison{.rank = Rank{2}, .unit = UnitId{4}, .step = 1};
  EngineRig rig(options);
  ASSERT_OK(rig.created());
  rig.Run([&](Rank) { return Training(1); }, absl::Hours(1));
  ReferenceRun expected = MakeReference(c);
  expected.has_gradient = [](int, int step, int, int) { return step != 1; };
  for (int rank = 0; rank < 4; ++rank) {
    const EngineRig::RankResult& result = rig.result(Rank{rank});
    ASSERT_OK(result.status);
    EXPECT_FALSE(result.reports[1].skipped);
    EXPECT_TRUE(result.reports[2].skipped);
    EXPECT_FALSE(result.reports[3].skipped);
    EXPECT_EQ(result.digest, RunReference(expected).digest);
  }
}

TEST(Misuse, IsRefusedAndChangesNothing) {
  using Kind = AppAction::Kind;
  const Case c{.layout = "iig"};
  for (const auto& [wrong, message] : std::vector<std::pair<AppAction, std::string>>{
           {{.kind = Kind::kRelease, .unit = UnitId{0}}, "released but not held"},
           {{.kind = Kind::kReduce, .unit = UnitId{1}}, "Acquire it for backward first"},
           {{.kind = Kind::kAcquire, .unit = UnitId{99}}, "does not exist"}}) {
    EngineRig rig(MakeRig(c));
    ASSERT_OK(rig.created());
    rig.Run([&, wrong = wrong](Rank) { return std::vector<AppAction>{wrong}; }, absl::Hours(1));
    EXPECT_THAT(rig.result(Rank{0}).status.ToString(), testing::HasSubstr(message));
    rig.Run([&](Rank) { return Training(1); }, absl::Hours(1));
    EXPECT_OK(rig.result(Rank{0}).status);
    EXPECT_EQ(rig.result(Rank{0}).digest, RunReference(MakeReference(c)).digest);
  }
}

TEST(Budget, TooSmallNamesUnitWantedAvailableAndKey) {
  RigOptions options = MakeRig({.layout = "zero3"});
  options.engine.prefetch_bytes = 200'000;
  EngineRig rig(options);
  EXPECT_THAT(
      rig.created(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               testing::AllOf(testing::HasSubstr("unit \"h."), testing::HasSubstr("262144"),
                              testing::HasSubstr("200000"), testing::HasSubstr("prefetch.bytes"))));
}

}  // namespace
}  // namespace strata
