#include <random>

#include "comm/plan.h"
#include "gtest/gtest.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/shapes.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr int64_t kSizes[] = {0, 2, 4, 1 << 12, 100003 * 2};

Bytes RandomBytes(int64_t bytes, int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Bytes made(bytes);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random());
  return made;
}

PlanOptions SmallChunks() { return {.dtype = DType::kBf16, .chunk_bytes = 1024}; }

class DirectPlans : public testing::TestWithParam<ShapeCase> {
 protected:
  // Builds the plans of all ranks with `build`, validates them and runs them on `inputs`.
  template <typename Build>
  std::vector<Bytes> Run(const std::vector<Bytes>& inputs, Build build) {
    plans_.clear();
    for (int rank = 0; rank < topology().size(); ++rank) {
      absl::StatusOr<Plan> plan = build(Rank{rank});
      EXPECT_OK(plan);
      plans_.push_back(*std::move(plan));
    }
    EXPECT_OK(Validate(plans_));
    auto outputs = InterpretPlans(plans_, inputs, 7);
    EXPECT_OK(outputs);
    return outputs.ok() ? *std::move(outputs) : std::vector<Bytes>(topology().size());
  }

  int64_t Sent(Rank rank, int level) { return CountWireBytes(plans_[Index(rank)], level).sent; }
  const Topology& topology() const { return GetParam().topology; }

  std::vector<Plan> plans_;
};

TEST_P(DirectPlans, BroadcastBringsTheRootsBytesToAll) {
  const int ranks = topology().size();
  for (const int64_t bytes : kSizes) {
    for (const int root : {0, ranks / 2, ranks - 1}) {
      std::vector<Bytes> inputs(ranks);
      inputs[root] = RandomBytes(bytes, 1);
      const std::vector<Bytes> outputs = Run(inputs, [&](Rank self) {
        return PlanBroadcast(topology(), bytes, Rank{root}, self, SmallChunks());
      });
      for (const Bytes& output : outputs) EXPECT_TRUE(output == inputs[root]) << bytes;
    }
  }
}

TEST_P(DirectPlans, BroadcastCrossesEachLinkOnce) {
  const int ranks = topology().size(), outer = topology().level_count() - 1;
  const int64_t bytes = 100000;
  std::vector<Bytes> inputs(ranks);
  inputs[0] = RandomBytes(bytes, 1);
  Run(inputs,
      [&](Rank self) { return PlanBroadcast(topology(), bytes, Rank{0}, self, SmallChunks()); });
  const int groups = static_cast<int>(topology().Children(outer, 0).size());
  int64_t sent = 0;
  for (int rank = 0; rank < ranks; ++rank) sent += Sent(Rank{rank}, outer);
  EXPECT_EQ(sent, (groups - 1) * bytes);
}

TEST_P(DirectPlans, AllToAllGivesEachItsPart) {
  const int ranks = topology().size();
  for (const int64_t bytes : kSizes) {
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < ranks; ++rank) inputs.push_back(RandomBytes(bytes, rank + 1));
    const std::vector<Bytes> outputs = Run(
        inputs, [&](Rank self) { return PlanAllToAll(topology(), bytes, self, SmallChunks()); });
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t begin = bytes / 2 * rank / ranks * 2, end = bytes / 2 * (rank + 1) / ranks * 2;
      Bytes expected;
      for (const Bytes& input : inputs) {
        expected.insert(expected.end(), input.begin() + begin, input.begin() + end);
      }
      EXPECT_TRUE(outputs[rank] == expected) << bytes << " bytes, rank " << rank;
    }
  }
}

TEST_P(DirectPlans, ShiftGivesTheBytesOfTheRankBefore) {
  const int ranks = topology().size();
  for (const int64_t bytes : kSizes) {
    for (const int places : {0, 1, -1, ranks - 1, ranks + 2}) {
      std::vector<Bytes> inputs;
      for (int rank = 0; rank < ranks; ++rank) inputs.push_back(RandomBytes(bytes, rank + 1));
      const std::vector<Bytes> outputs = Run(inputs, [&](Rank self) {
        return PlanShift(topology(), bytes, places, self, SmallChunks());
      });
      for (int rank = 0; rank < ranks; ++rank) {
        const int from = ((rank - places) % ranks + ranks) % ranks;
        EXPECT_TRUE(outputs[rank] == inputs[from]) << bytes << " bytes, " << places << " places";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DirectPlans, testing::ValuesIn(ShapeCases()),
                         [](const auto& info) { return info.param.name; });

// In the first rounds of an all-to-all no two ranks of one node send to one rank.
TEST(PlanAllToAll, RanksStartWithDifferentRanks) {
  const Topology topology = Topology::Uniform(4, 3);
  std::vector<int> senders(topology.size());
  for (int rank = 0; rank < topology.size(); ++rank) {
    const auto plan = PlanAllToAll(topology, 1 << 16, Rank{rank}, {});
    ASSERT_OK(plan);
    for (const Step& step : plan->steps) {
      if (step.op != Op::kSend || step.level != 1) continue;
      ++senders[Index(step.peer)];
      break;
    }
  }
  EXPECT_EQ(senders, std::vector<int>(topology.size(), 1));
}

TEST(DirectPlanArguments, AreChecked) {
  const Topology topology = Topology::Uniform(2, 2);
  EXPECT_THAT(PlanShift(topology, 3, 1, Rank{0}, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 bytes")));
  EXPECT_THAT(PlanAllToAll(topology, 4, Rank{4}, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 4 of 4")));
  EXPECT_THAT(PlanBroadcast(topology, 4, Rank{9}, Rank{0}, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 9 of 4")));
  EXPECT_THAT(PlanBroadcast(topology, 4, Rank{0}, Rank{0}, {.chunk_bytes = 3}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk_bytes is 3")));
}

}  // namespace
}  // namespace strata
