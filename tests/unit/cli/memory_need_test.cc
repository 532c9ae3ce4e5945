#include "cli/train/memory_need.h"

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainConfig Units() {
  TrainConfig config;
  config.model.kind = ModelKind::kUnits;
  config.model.elements = {600, 400};
  return config;
}

double Least(const TrainConfig& config, const char* layout, const Topology& topology,
             int rank = 0) {
  return LeastBytesOfNode(config, *ParseLayout(layout, topology), topology, Rank{rank});
}

TEST(MemoryNeedTest, OptimizerStateIsCountedWhereItIs) {
  const Topology topology = Topology::Uniform(5, 2);
  TrainConfig config = Units();
  EXPECT_EQ(Least(config, "ddp", topology), 2 * 12 * 1000);
  EXPECT_EQ(Least(config, "hsdp", topology), 12 * 1000);
  EXPECT_EQ(Least(config, "zero3", topology), 12 * 1000 / 5);
  config.train.optimizer = OptimizerKind::kSgd;
  EXPECT_EQ(Least(config, "hsdp", topology), 4 * 1000);
  config.train.momentum = 0.5;
  EXPECT_EQ(Least(config, "hsdp", topology), 8 * 1000);
}

TEST(MemoryNeedTest, NodesMayDifferInSize) {
  const Topology topology = *Topology::Create({{"node", {1, 3}, {}}, {"cluster", {2}, {}}});
  EXPECT_EQ(Least(Units(), "ddp", topology, 0), 12 * 1000);
  EXPECT_EQ(Least(Units(), "ddp", topology, 3), 3 * 12 * 1000);
}

TEST(MemoryNeedTest, AModelOfMathematicsNeedsAUnitAndItsActivations) {
  TrainConfig config;
  config.model = {.layers = 2, .width = 2, .heads = 2, .context = 3};
  config.train.micro_batch = 5;
  const double kept = 15 * (2 * (16 * 2 + 2 * 3) + 256);
  const Topology topology = Topology::Uniform(1, 3);
  EXPECT_EQ(Least(config, "ddp", topology), 3 * (12 * 670 + 4 * 518 + 4 * kept));
  config.compute.dtype = DType::kBf16;
  EXPECT_EQ(Least(config, "ddp", topology), 3 * (12 * 670 + 4 * 518 + 2 * kept));
}

TEST(MemoryNeedTest, WhatDoesNotFitSaysHowMuchAndWhatToChange) {
  const Topology topology = Topology::Uniform(1, 1);
  const Layout layout = *ParseLayout("ddp", topology);
  TrainConfig config = Units();
  EXPECT_OK(CheckMemory(config, layout, topology, Rank{0}, 12000));
  config.model.elements = {int64_t{1} << 30};
  EXPECT_THAT(CheckMemory(config, layout, topology, Rank{0}, int64_t{3} << 29),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("does not fit the memory of this host"),
                             HasSubstr("need at least 12.0 GiB, 1.5 GiB are available"),
                             HasSubstr("lower model.elements"))));
}

}  // namespace
}  // namespace strata
