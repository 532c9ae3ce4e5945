#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "comm/plan.h"
#include "gtest/gtest.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/reference_arithmetic.h"
#include "tests/support/reference_reduce.h"
#include "tests/support/set_oracle.h"
#include "tests/support/shapes.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;
using Values = ReferenceReduce::Values;

constexpr int64_t kBlock = 256;

std::vector<Plan> PlansOf(const Topology& topology, const ShardLayout& from, const ShardLayout& to,
                          LevelSet over, const PlanOptions& options) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < topology.size(); ++rank) {
    auto plan = PlanReduce(topology, from, to, over, Rank{rank}, options);
    EXPECT_OK(plan);
    plans.push_back(*std::move(plan));
  }
  return plans;
}

// One whole unit per rank, as bits, of numbers whose sum depends on the order of addition.
std::vector<Values> RandomUnits(int ranks, int64_t elements, DType dtype) {
  std::mt19937 random(static_cast<uint32_t>(elements));
  std::vector<Values> units(ranks, Values(elements));
  for (Values& unit : units) {
    for (uint32_t& bits : unit) {
      const auto value = static_cast<float>(random() % 20001) - 10000.0f;
      bits = NarrowReference(dtype, value / static_cast<float>(1 + random() % 1000));
    }
  }
  return units;
}

Bytes Pack(const ShardLayout& state, int rank, const Values& unit, DType dtype) {
  Bytes packed(state.OwnedElements(Rank{rank}) * SizeOf(dtype));
  int64_t at = 0;
  for (const ElementRange& range : state.Owned(Rank{rank})) {
    for (int64_t e = range.begin; e < range.end; ++e, at += SizeOf(dtype)) {
      StoreReference(dtype, packed.data() + at, unit[e]);
    }
  }
  return packed;
}

struct Reduction {
  const Topology& topology;
  const ShardLayout& from;
  const ShardLayout& to;
  LevelSet over;
  PlanOptions options;
};

// `to`'s elements of every rank, as whole units with zeros elsewhere.
std::vector<Values> Run(const Reduction& r, const std::vector<Plan>& plans,
                        const std::vector<Values>& units) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < r.topology.size(); ++rank) {
    inputs.push_back(Pack(r.from, rank, units[rank], r.options.dtype));
  }
  auto outputs = InterpretPlans(plans, inputs, r.from.elements() + 1);
  EXPECT_OK(outputs);
  std::vector<Values> results(units.size(), Values(r.from.elements()));
  if (!outputs.ok()) return results;
  const int64_t size = SizeOf(r.options.dtype);
  for (size_t rank = 0; rank < units.size(); ++rank) {
    int64_t at = 0;
    for (const ElementRange& range : r.to.Owned(Rank{static_cast<int>(rank)})) {
      for (int64_t e = range.begin; e < range.end; ++e, at += size) {
        results[rank][e] = LoadReference(r.options.dtype, (*outputs)[rank].data() + at);
      }
    }
  }
  return results;
}

void ExpectReferenceBits(const Reduction& r, const std::vector<Values>& units,
                         const std::vector<Values>& results) {
  const BlockSets from = SetsOf(r.from, r.topology.size());
  const BlockSets to = SetsOf(r.to, r.topology.size());
  const ReferenceReduce reference(r.topology, r.options.dtype, from, Bits(r.over),
                                  Bits(r.from.sharded()));
  for (int64_t block = 0; block * kBlock < r.from.elements(); ++block) {
    const int64_t begin = block * kBlock, end = std::min(begin + kBlock, r.from.elements());
    std::vector<Values> given;
    for (const Values& unit : units) given.emplace_back(unit.begin() + begin, unit.begin() + end);
    for (int rank = 0; rank < r.topology.size(); ++rank) {
      if (!to[rank][block]) continue;
      const Values result(results[rank].begin() + begin, results[rank].begin() + end);
      ASSERT_EQ(result, reference.Sum(rank, block, given)) << "rank " << rank << " block " << block;
    }
  }
}

// Ranks of a group that are added to each other: all that agree at the inner levels that values are
// not added over. Only for groups of equal size.
std::vector<std::vector<int>> AddedTogether(const Topology& topology, RankSpan group, int level,
                                            LevelSet over) {
  std::map<std::vector<int>, std::vector<int>> classes;
  for (int rank : RanksOf(group)) {
    std::vector<int> place;
    for (int l = 0; l < level; ++l) {
      place.push_back(over.Has(l) ? -1 : topology.ChildIndex(Rank{rank}, l));
    }
    classes[place].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  for (auto& [place, ranks] : classes) result.push_back(std::move(ranks));
  return result;
}

int64_t Sent(const std::vector<Plan>& plans, const std::vector<int>& ranks, int level,
             int level_count) {
  int64_t bytes = 0;
  for (int rank : ranks) {
    for (int l = level; l < level_count; ++l) bytes += CountWireBytes(plans[rank], l).sent;
  }
  return bytes;
}

void ExpectBytesOfSets(const Reduction& r, const std::vector<Plan>& plans, const BlockSets& from,
                       const BlockSets& to, bool equal_groups) {
  const int64_t elements = r.from.elements(), size = SizeOf(r.options.dtype);
  const int levels = r.topology.level_count();
  for (int rank = 0; rank < r.topology.size(); ++rank) {
    ASSERT_EQ(Sent(plans, {rank}, 0, levels), ReduceBytes(from, to, {rank}, elements, size));
  }
  if (!equal_groups) return;
  for (int level = 1; level < levels; ++level) {
    for (int group = 0; group < r.topology.group_count(level - 1); ++group) {
      const RankSpan span = r.topology.Members(level - 1, group);
      int64_t bytes = 0;
      for (const auto& ranks : AddedTogether(r.topology, span, level, r.over)) {
        bytes += ReduceBytes(from, to, ranks, elements, size);
      }
      ASSERT_EQ(Sent(plans, RanksOf(span), level, levels), bytes) << "level " << level;
    }
  }
}

void CheckReduction(const ShapeCase& c, const std::vector<int>& order, const Reduction& r) {
  const std::vector<Plan> plans = PlansOf(c.topology, r.from, r.to, r.over, r.options);
  ASSERT_OK(Validate(plans));
  const std::vector<Values> units =
      RandomUnits(c.topology.size(), r.from.elements(), r.options.dtype);
  ASSERT_NO_FATAL_FAILURE(ExpectReferenceBits(r, units, Run(r, plans, units)));
  const auto sets = [&](const ShardLayout& state) {
    return c.sizes.empty()
               ? SetsOf(state, c.topology.size())
               : EqualGroupSets(c.sizes, order, Bits(state.sharded()), state.elements());
  };
  ExpectBytesOfSets(r, plans, sets(r.from), sets(r.to), !c.sizes.empty());
}

class PlanReduceTest : public testing::TestWithParam<ShapeCase> {};

TEST_P(PlanReduceTest, EveryReductionOfEveryLegalLayout) {
  const ShapeCase& c = GetParam();
  const int levels = c.topology.level_count();
  std::set<std::tuple<std::vector<int>, int64_t, uint32_t, uint32_t>> seen;
  for (const Layout& layout : LegalLayouts(levels)) {
    const std::vector<int> order = CutOrder(layout, levels);
    for (int64_t elements : {0, 1, 255, 256, 257, 10007, 100003}) {
      auto shards = MakeUnitShards(c.topology, layout, elements);
      ASSERT_OK(shards);
      const LevelSet rest = LevelSet::All(levels).Without(layout.gradients);
      const std::tuple<const ShardLayout*, const ShardLayout*, LevelSet> reductions[] = {
          {&shards->full, &shards->gradients, layout.gradients},
          {&shards->gradients, &shards->reduced, rest},
          {&shards->full, &shards->reduced, LevelSet::All(levels)}};
      for (const auto& [from, to, over] : reductions) {
        // The large unit in the largest sum only: adding is slow here.
        if (elements > 100000 && over != LevelSet::All(levels)) continue;
        if (!seen.insert({order, elements, Bits(from->sharded()), Bits(over)}).second) continue;
        const DType dtype = seen.size() % 2 == 0 ? DType::kF32 : DType::kBf16;
        const Reduction r{c.topology, *from, *to, over, {dtype, elements > 100000 ? 32768 : 2048}};
        ASSERT_NO_FATAL_FAILURE(CheckReduction(c, order, r))
            << elements << " elements, from " << Bits(from->sharded()) << " over " << Bits(over);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PlanReduceTest, testing::ValuesIn(ShapeCases()),
                         [](const auto& info) { return info.param.name; });

UnitShards ShardsOf(const Topology& topology, const char* preset, int64_t elements) {
  return *MakeUnitShards(topology, *ParseLayout(preset, topology), elements);
}

// In-step reduce, then the boundary's, for one preset: the whole sum, put together from its owners.
Values SumOf(const Topology& topology, const char* preset, const std::vector<Values>& units,
             DType dtype) {
  const Layout layout = *ParseLayout(preset, topology);
  const auto elements = static_cast<int64_t>(units[0].size());
  const UnitShards shards = *MakeUnitShards(topology, layout, elements);
  const PlanOptions options{dtype, 2048};
  const LevelSet rest = LevelSet::All(topology.level_count()).Without(layout.gradients);
  const Reduction first{topology, shards.full, shards.gradients, layout.gradients, options};
  const Reduction second{topology, shards.gradients, shards.reduced, rest, options};
  const auto run = [&](const Reduction& r, const std::vector<Values>& given) {
    return Run(r, PlansOf(topology, r.from, r.to, r.over, options), given);
  };
  const std::vector<Values> results = run(second, run(first, units));
  Values sum(elements);
  for (int rank = 0; rank < topology.size(); ++rank) {
    for (const ElementRange& range : shards.reduced.Owned(Rank{rank})) {
      std::copy(results[rank].begin() + range.begin, results[rank].begin() + range.end,
                sum.begin() + range.begin);
    }
  }
  return sum;
}

TEST(PlanReducePromiseTest, SumsDoNotDependOnTheLayout) {
  for (const Topology& topology :
       {Topology::Uniform(2, 2), Topology::Uniform(4, 1), Topology::Uniform(3, 2),
        Topology::Uniform(5, 1), Nodes({2, 3})}) {
    for (DType dtype : {DType::kF32, DType::kBf16}) {
      const std::vector<Values> units = RandomUnits(topology.size(), 7001, dtype);
      const Values expected = SumOf(topology, "ddp", units, dtype);
      for (const char* preset :
           {"zero1", "zero2", "zero3", "hsdp", "iig", "igg", "nig", "across"}) {
        EXPECT_EQ(SumOf(topology, preset, units, dtype), expected) << preset;
      }
    }
  }
}

TEST(PlanReducePromiseTest, SumsOfPowersOfTwoDoNotDependOnTheGrouping) {
  const std::vector<Values> units = RandomUnits(8, 7001, DType::kF32);
  const Values expected = SumOf(Topology::Uniform(1, 8), "zero3", units, DType::kF32);
  for (const auto& [nodes, ranks] : {std::pair(8, 1), std::pair(4, 2), std::pair(2, 4)}) {
    EXPECT_EQ(SumOf(Topology::Uniform(nodes, ranks), "zero3", units, DType::kF32), expected);
  }
}

TEST(PlanReducePromiseTest, AReversedOrderAndADroppedValueAreSeen) {
  const Topology topology = Topology::Uniform(3, 1);
  std::vector<Values> units = RandomUnits(3, 7001, DType::kF32);
  const Values expected = SumOf(topology, "zero3", units, DType::kF32);
  std::swap(units[0], units[2]);
  EXPECT_NE(SumOf(topology, "zero3", units, DType::kF32), expected);
  std::swap(units[0], units[2]);
  units[1].assign(units[1].size(), 0);
  EXPECT_NE(SumOf(topology, "zero3", units, DType::kF32), expected);
}

// 2^24 + 1 is not an f32, so each grouping of these numbers has its own sum.
TEST(PlanReduceTreeTest, HalvesAreCeilAndFloor) {
  const auto sum = [](const Topology& topology, const std::vector<float>& values) {
    std::vector<Values> units;
    for (float value : values) units.push_back({std::bit_cast<uint32_t>(value)});
    return std::bit_cast<float>(SumOf(topology, "ddp", units, DType::kF32)[0]);
  };
  constexpr float kBig = 16777216.0f;
  const Topology three = Topology::Uniform(1, 3), five = Topology::Uniform(5, 1);
  EXPECT_EQ(sum(three, {1, 1, kBig}), kBig + 2);          // (1 + 1) + big
  EXPECT_EQ(sum(three, {kBig, 1, 1}), kBig);              // (big + 1) + 1
  EXPECT_EQ(sum(five, {kBig, 1, 1, 1, 1}), kBig + 2);     // ((big + 1) + 1) + (1 + 1)
  EXPECT_EQ(sum(five, {1, 1, 1, kBig, 1}), kBig + 4);     // ((1 + 1) + 1) + (big + 1), 3 to even
  EXPECT_EQ(sum(Nodes({1, 2}), {kBig, 1, 1}), kBig + 2);  // big + (1 + 1): node by node
}

TEST(PlanReduceScheduleTest, AllRanksOfANodeSendTheirPartOfIt) {
  constexpr int64_t kElements = 256 * 64;
  for (const auto& [nodes, ranks] :
       {std::pair(2, 4), std::pair(4, 2), std::pair(3, 2), std::pair(8, 1)}) {
    const Topology topology = Topology::Uniform(nodes, ranks);
    const UnitShards shards = ShardsOf(topology, "zero3", kElements * nodes * ranks);
    for (const Plan& plan :
         PlansOf(topology, shards.full, shards.gradients, LevelSet::All(2), {})) {
      EXPECT_EQ(CountWireBytes(plan, 1).sent, kElements * 4 * (nodes - 1));
      EXPECT_EQ(CountWireBytes(plan, 1).received, kElements * 4 * (nodes - 1));
    }
  }
}

std::vector<std::vector<int>> Targets(const Topology& topology) {
  const UnitShards shards = ShardsOf(topology, "zero3", 256 * 64 * topology.size());
  std::vector<std::vector<int>> targets;  // [rank][turn]
  for (const Plan& plan : PlansOf(topology, shards.full, shards.gradients, LevelSet::All(2), {})) {
    targets.emplace_back();
    for (const Step& step : plan.steps) {
      if (step.op == Op::kSend) targets.back().push_back(Index(step.peer));
    }
  }
  return targets;
}

TEST(PlanReduceScheduleTest, NoReceiverIsTheTargetOfTwoAtATime) {
  for (const Topology& topology : {Topology::Uniform(5, 1), Topology::Uniform(1, 4)}) {
    const auto targets = Targets(topology);
    ASSERT_EQ(static_cast<int>(targets[0].size()), topology.size() - 1);
    for (size_t turn = 0; turn < targets[0].size(); ++turn) {
      std::set<int> distinct;
      for (const auto& sends : targets) distinct.insert(sends[turn]);
      EXPECT_EQ(static_cast<int>(distinct.size()), topology.size());
    }
  }
}

TEST(PlanReduceScheduleTest, PowersOfTwoDoubleTheDistance) {
  const auto targets = Targets(Topology::Uniform(8, 1));
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(targets[rank], (std::vector<int>{rank ^ 1, rank ^ 1, rank ^ 1, rank ^ 1, rank ^ 2,
                                               rank ^ 2, rank ^ 4}));
  }
}

// Chunks as large as the pace's windows, so that each send waits for the transfer just before it.
TEST_P(PlanReduceTest, RanksThatWaitForEachOtherNeverDoInACircle) {
  const Topology& topology = GetParam().topology;
  for (const Layout& layout : LegalLayouts(topology.level_count())) {
    for (const int64_t elements : {int64_t{5000011}, int64_t{1} << 23}) {
      const auto shards = MakeUnitShards(topology, layout, elements);
      ASSERT_OK(shards);
      const PlanOptions options{DType::kF32, 1 << 20};
      const LevelSet all = LevelSet::All(topology.level_count());
      EXPECT_OK(
          Validate(PlansOf(topology, shards->full, shards->gradients, layout.gradients, options)));
      EXPECT_OK(Validate(PlansOf(topology, shards->gradients, shards->reduced,
                                 all.Without(layout.gradients), options)));
    }
  }
}

TEST(PlanReduceArgumentsTest, AreChecked) {
  const Topology topology = Topology::Uniform(2, 2);
  const UnitShards shards = ShardsOf(topology, "iig", 1000);
  const LevelSet node = LevelSet().With(0), all = LevelSet::All(2);
  const auto refused = [](const absl::StatusOr<Plan>& plan, const char* why) {
    EXPECT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(PlanReduce(topology, shards.full, shards.gradients, all, Rank{0}, {}),
          "level \"cluster\": values are added over");
  refused(PlanReduce(topology, shards.gradients, shards.reduced, all, Rank{0}, {}),
          "level \"node\"");
  refused(PlanReduce(topology, shards.full, shards.reduced, node, Rank{0}, {}),
          "level \"cluster\"");
}

}  // namespace
}  // namespace strata
