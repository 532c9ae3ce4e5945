#include <cstring>
#include <random>
#include <set>
#include <tuple>

#include "comm/plan.h"
#include "gtest/gtest.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/set_oracle.h"
#include "tests/support/shapes.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

std::vector<Plan> PlansOf(const Topology& topology, const ShardLayout& from, const ShardLayout& to,
                          const PlanOptions& options) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < topology.size(); ++rank) {
    auto plan = PlanGather(topology, from, to, Rank{rank}, options);
    EXPECT_OK(plan);
    plans.push_back(*std::move(plan));
  }
  return plans;
}

// The packed shard of `rank`, cut out of a whole unit.
Bytes Pack(const ShardLayout& state, int rank, const Bytes& unit, int64_t element_bytes) {
  Bytes packed;
  for (const ElementRange& range : state.Owned(Rank{rank})) {
    packed.insert(packed.end(), unit.begin() + range.begin * element_bytes,
                  unit.begin() + range.end * element_bytes);
  }
  return packed;
}

Bytes RandomUnit(int64_t bytes) {
  std::mt19937 random(static_cast<uint32_t>(bytes));
  Bytes unit(bytes);
  for (std::byte& byte : unit) byte = static_cast<std::byte>(random());
  return unit;
}

// Bytes received by `ranks` over the levels from `level` outwards.
int64_t Received(const std::vector<Plan>& plans, const std::vector<int>& ranks, int level,
                 int level_count) {
  int64_t bytes = 0;
  for (int rank : ranks) {
    for (int l = level; l < level_count; ++l) bytes += CountWireBytes(plans[rank], l).received;
  }
  return bytes;
}

// Every group gets exactly what it needs and does not hold.
void ExpectBytesOfSets(const Topology& topology, const std::vector<Plan>& plans,
                       const BlockSets& from, const BlockSets& to, int64_t elements,
                       int64_t element_bytes) {
  for (int rank = 0; rank < topology.size(); ++rank) {
    ASSERT_EQ(Received(plans, {rank}, 0, topology.level_count()),
              GatherBytes(from, to, {rank}, elements, element_bytes));
  }
  for (int level = 0; level + 1 < topology.level_count(); ++level) {
    for (int group = 0; group < topology.group_count(level); ++group) {
      const std::vector<int> ranks = RanksOf(topology.Members(level, group));
      ASSERT_EQ(Received(plans, ranks, level + 1, topology.level_count()),
                GatherBytes(from, to, ranks, elements, element_bytes));
    }
  }
}

class PlanGatherTest : public testing::TestWithParam<ShapeCase> {};

void CheckPair(const ShapeCase& c, const std::vector<int>& order, const ShardLayout& from,
               const ShardLayout& to) {
  const int64_t elements = from.elements();
  const DType dtype = elements % 2 == 0 ? DType::kF32 : DType::kBf16;
  const PlanOptions options{dtype, elements > 4096 ? 32768 : 512};
  const std::vector<Plan> plans = PlansOf(c.topology, from, to, options);
  ASSERT_OK(Validate(plans));

  const Bytes unit = RandomUnit(elements * SizeOf(dtype));
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < c.topology.size(); ++rank) {
    inputs.push_back(Pack(from, rank, unit, SizeOf(dtype)));
  }
  auto outputs = InterpretPlans(plans, inputs, elements);
  ASSERT_OK(outputs);
  for (int rank = 0; rank < c.topology.size(); ++rank) {
    ASSERT_EQ((*outputs)[rank], Pack(to, rank, unit, SizeOf(dtype))) << "rank " << rank;
  }

  const bool equal = !c.sizes.empty();
  const auto sets = [&](const ShardLayout& state) {
    return equal ? EqualGroupSets(c.sizes, order, Bits(state.sharded()), elements)
                 : SetsOf(state, c.topology.size());
  };
  ExpectBytesOfSets(c.topology, plans, sets(from), sets(to), elements, SizeOf(dtype));
}

TEST_P(PlanGatherTest, EveryPairOfStatesOfEveryLegalLayout) {
  const ShapeCase& c = GetParam();
  std::set<std::tuple<std::vector<int>, uint32_t, uint32_t>> seen;
  for (const Layout& layout : LegalLayouts(c.topology.level_count())) {
    const std::vector<int> order = CutOrder(layout, c.topology.level_count());
    for (int64_t elements : {0, 1, 255, 256, 257, 2560, 100003}) {
      auto shards = MakeUnitShards(c.topology, layout, elements);
      ASSERT_OK(shards);
      const std::pair<const ShardLayout*, const ShardLayout*> pairs[] = {
          {&shards->optimizer, &shards->parameters},
          {&shards->parameters, &shards->full},
          {&shards->reduced, &shards->optimizer}};
      for (const auto& [from, to] : pairs) {
        const auto key =
            std::tuple(order, Bits(from->sharded()) + 64 * elements, Bits(to->sharded()));
        if (!seen.insert(key).second) continue;
        ASSERT_NO_FATAL_FAILURE(CheckPair(c, order, *from, *to))
            << elements << " elements, from " << Bits(from->sharded()) << " to "
            << Bits(to->sharded());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PlanGatherTest, testing::ValuesIn(ShapeCases()),
                         [](const auto& info) { return info.param.name; });

UnitShards ShardsOf(const Topology& topology, const char* preset, int64_t elements) {
  return *MakeUnitShards(topology, *ParseLayout(preset, topology), elements);
}

TEST(PlanGatherScheduleTest, AllRanksOfANodeSendTheirPartOfIt) {
  constexpr int64_t kElements = 256 * 64;
  for (const char* preset : {"zero3", "across"}) {
    for (const auto& [nodes, ranks] : {std::pair(2, 4), std::pair(4, 2), std::pair(3, 2)}) {
      const Topology topology = Topology::Uniform(nodes, ranks);
      const UnitShards shards = ShardsOf(topology, preset, kElements * nodes * ranks);
      for (const Plan& plan : PlansOf(topology, shards.parameters, shards.full, {})) {
        EXPECT_EQ(CountWireBytes(plan, 1).sent, kElements * 4 * (nodes - 1)) << preset;
        EXPECT_EQ(CountWireBytes(plan, 1).received, kElements * 4 * (nodes - 1)) << preset;
      }
    }
  }
}

TEST(PlanGatherScheduleTest, NoReceiverIsTheTargetOfTwoAtATime) {
  const Topology topology = Topology::Uniform(1, 5);
  const UnitShards shards = ShardsOf(topology, "zero3", 256 * 5 * 64);
  const std::vector<Plan> plans = PlansOf(topology, shards.parameters, shards.full, {});
  std::vector<std::vector<int>> targets;  // [rank][turn]
  for (const Plan& plan : plans) {
    targets.emplace_back();
    for (const Step& step : plan.steps) {
      if (step.op == Op::kSend) targets.back().push_back(Index(step.peer));
    }
  }
  ASSERT_EQ(targets[0].size(), 4u);
  for (size_t turn = 0; turn < targets[0].size(); ++turn) {
    std::set<int> distinct;
    for (const auto& sends : targets) distinct.insert(sends[turn]);
    EXPECT_EQ(distinct.size(), 5u);
  }
}

TEST(PlanGatherScheduleTest, AForwardedChunkWaitsForItsOwnReceiveOnly) {
  const Topology topology = Topology::Uniform(3, 2);
  const UnitShards shards = ShardsOf(topology, "zero3", 100003);
  PlanOptions options;
  options.chunk_bytes = 8192;
  for (const Plan& plan : PlansOf(topology, shards.parameters, shards.full, options)) {
    int64_t forwarded = 0;
    for (const Step& step : plan.steps) {
      if (step.op != Op::kSend || step.src.buffer == BufferId::kInput) continue;
      ASSERT_EQ(step.dependency_count, 1);
      const Step& received = plan.steps[plan.DependenciesOf(step)[0]];
      EXPECT_EQ(received.op, Op::kRecv);
      EXPECT_EQ(received.dst.offset, step.src.offset);
      EXPECT_EQ(received.dst.bytes, step.src.bytes);
      ++forwarded;
    }
    EXPECT_GT(forwarded, 0);
  }
}

TEST(PlanGatherScheduleTest, NoSliceOfAFullUnitCrossesAChunk) {
  const Topology topology = Topology::Uniform(2, 3);
  const UnitShards shards = ShardsOf(topology, "across", 100003);
  PlanOptions options;
  options.chunk_bytes = 4096;
  for (const Plan& plan : PlansOf(topology, shards.parameters, shards.full, options)) {
    for (const Step& step : plan.steps) {
      if (step.op == Op::kSend) continue;
      EXPECT_EQ(step.dst.offset / 4096, (step.dst.offset + step.dst.bytes - 1) / 4096);
    }
  }
}

TEST(PlanGatherArgumentsTest, AreChecked) {
  const Topology topology = Topology::Uniform(2, 2);
  const UnitShards one = ShardsOf(topology, "zero3", 1000),
                   other = ShardsOf(topology, "zero3", 1001);
  const auto refused = [](const absl::StatusOr<Plan>& plan, const char* why) {
    EXPECT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(PlanGather(topology, one.parameters, other.full, Rank{0}, {}),
          "1000 elements to one of 1001");
  refused(PlanGather(topology, one.parameters, one.full, Rank{4}, {}), "rank 4 of 4 ranks");
  refused(PlanGather(topology, one.parameters, one.full, Rank{0}, {DType::kF32, 6}),
          "chunk_bytes is 6");
}

TEST(PlanExchangeTest, EveryRankGetsAllRecordsInOrder) {
  for (const Topology& topology :
       {Topology::Uniform(1, 1), Topology::Uniform(3, 2), Nodes({2, 3}), Topology::Uniform(5, 1)}) {
    for (int64_t record_bytes : {0, 1, 37, 512}) {
      std::vector<Plan> plans;
      std::vector<Bytes> inputs;
      Bytes all;
      for (int rank = 0; rank < topology.size(); ++rank) {
        auto plan = PlanExchange(topology, record_bytes, Rank{rank});
        ASSERT_OK(plan);
        plans.push_back(*plan);
        inputs.push_back(RandomUnit(record_bytes));
        if (record_bytes > 0) inputs.back()[0] = static_cast<std::byte>(rank);
        all.insert(all.end(), inputs.back().begin(), inputs.back().end());
      }
      ASSERT_OK(Validate(plans));
      auto outputs = InterpretPlans(plans, inputs, 7);
      ASSERT_OK(outputs);
      for (const Bytes& output : *outputs) EXPECT_EQ(output, all);
    }
  }
}

}  // namespace
}  // namespace strata
