// What a PlanRunner asks of its transports, and when: credits, priorities, the end of a lane.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/plan_runner.h"
#include "comm/sim/sim_stream.h"
#include "comm/sim/sim_world.h"
#include "tests/support/plan_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/comm/held_transport.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const absl::Time kEnd = absl::UnixEpoch() + absl::Hours(1);

Step SendStep(uint32_t message, int64_t bytes, int level = 0) {
  return {.op = Op::kSend,
          .level = level,
          .peer = Rank{1},
          .message = message,
          .src = {BufferId::kInput, 0, bytes}};
}

Step RecvStep(uint32_t message, int64_t bytes, int level = 0) {
  return {.op = Op::kRecv,
          .level = level,
          .peer = Rank{2},
          .message = message,
          .dst = {BufferId::kOutput, 0, bytes}};
}

std::shared_ptr<const Plan> PlanOf(std::vector<Step> steps, std::vector<int> dependencies = {}) {
  return std::make_shared<const Plan>(Plan{.name = "test",
                                           .input_bytes = 1000,
                                           .output_bytes = 1000,
                                           .steps = std::move(steps),
                                           .dependencies = std::move(dependencies)});
}

class PlanRunnerLaneTest : public testing::Test {
 protected:
  void MakeRunner(std::vector<int64_t> credit_bytes) {
    runner_ =
        std::make_unique<PlanRunner>(loop_, stream_, std::vector<Transport*>{&inner_, &outer_},
                                     PlanRunner::Options{.credit_bytes = std::move(credit_bytes),
                                                         .level_names = {"node", "cluster"}});
  }

  // Runs `action` in the loop and what follows from it.
  void InLoop(Task action) {
    loop_.Post(std::move(action));
    ASSERT_TRUE(world_.RunUntilIdle(kEnd));
  }

  void Run(std::shared_ptr<const Plan> plan, uint32_t operation, uint64_t priority = 0) {
    InLoop([this, plan, operation, priority] {
      auto in_call = std::make_shared<bool>(true);
      runner_->Run(plan, memory_.buffers(),
                   {.what = "test", .operation = operation, .priority = priority},
                   [this, operation, in_call](absl::Status status) {
                     EXPECT_FALSE(*in_call);
                     ended_.emplace_back(operation, std::move(status));
                   });
      *in_call = false;
    });
  }

  void End(HeldTransport& transport, size_t index, absl::Status status = absl::OkStatus()) {
    InLoop([&transport, index, status] { transport.End(index, status); });
  }

  static std::vector<uint32_t> Messages(const HeldTransport& transport) {
    std::vector<uint32_t> messages;
    for (const auto& request : transport.pending) messages.push_back(request.tag.message);
    return messages;
  }

  SimWorld world_{{}};
  SimLoop& loop_ = world_.MakeLoop("lane");
  SimStream stream_{loop_, 0};
  HeldTransport inner_, outer_;
  PlanMemory memory_{*PlanOf({}), 1000};
  std::unique_ptr<PlanRunner> runner_;
  std::vector<std::pair<uint32_t, absl::Status>> ended_;
};

TEST_F(PlanRunnerLaneTest, SendsTakeCreditsOfTheirLevelInOrder) {
  MakeRunner({100, 70});
  Run(PlanOf({SendStep(0, 60), SendStep(1, 50), SendStep(2, 10), SendStep(3, 50, 1),
              SendStep(4, 20, 1), SendStep(5, 1, 1)}),
      1);
  // Message 2 would fit, but it does not overtake message 1.
  EXPECT_THAT(Messages(inner_), ElementsAre(0));
  EXPECT_THAT(Messages(outer_), ElementsAre(3, 4));
  End(inner_, 0);
  EXPECT_THAT(Messages(inner_), ElementsAre(1, 2));
  End(outer_, 1);
  EXPECT_THAT(Messages(outer_), ElementsAre(3, 5));
}

TEST_F(PlanRunnerLaneTest, SendLargerThanTheCreditsGoesAlone) {
  MakeRunner({100, 100});
  Run(PlanOf({SendStep(0, 500), SendStep(1, 1), SendStep(2, 500)}), 1);
  EXPECT_THAT(Messages(inner_), ElementsAre(0));
  End(inner_, 0);
  EXPECT_THAT(Messages(inner_), ElementsAre(1));
  End(inner_, 0);
  EXPECT_THAT(Messages(inner_), ElementsAre(2));
}

TEST_F(PlanRunnerLaneTest, ReceivesNeedNoCreditsAndComeBeforeSends) {
  MakeRunner({1, 1});
  Run(PlanOf({SendStep(0, 10), RecvStep(1, 500), RecvStep(2, 500), SendStep(3, 10)}), 1);
  EXPECT_THAT(Messages(inner_), ElementsAre(1, 2, 0));
}

TEST_F(PlanRunnerLaneTest, LowerPriorityNumberThenEarlierRunThenEarlierStepGoesFirst) {
  MakeRunner({10, 10});
  Run(PlanOf({SendStep(0, 10), SendStep(1, 10)}), 1, 5);
  Run(PlanOf({SendStep(10, 10)}), 2, 5);
  Run(PlanOf({SendStep(20, 10), SendStep(21, 10)}), 3, 4);
  // What later runs have in flight takes no credits from the first one; what it has, from them.
  EXPECT_THAT(Messages(inner_), ElementsAre(0, 20));
  End(inner_, 1);
  EXPECT_THAT(Messages(inner_), ElementsAre(0, 21));
  End(inner_, 0);
  EXPECT_THAT(Messages(inner_), ElementsAre(21));
  for (const uint32_t message : {21u, 1u, 10u}) {
    ASSERT_THAT(Messages(inner_), ElementsAre(message));
    End(inner_, 0);
  }
  ASSERT_EQ(ended_.size(), 3u);
  EXPECT_EQ(ended_[0].first, 3u);
  EXPECT_EQ(ended_[1].first, 1u);
  EXPECT_EQ(ended_[2].first, 2u);
  for (const auto& [operation, status] : ended_) EXPECT_OK(status);
}

TEST_F(PlanRunnerLaneTest, PreferredRunsGoFirstWhateverEarlierOnesHaveInFlight) {
  MakeRunner({10, 10});
  Run(PlanOf({SendStep(0, 10), SendStep(1, 10)}), 1, 5);
  Run(PlanOf({SendStep(10, 10)}), 2, 6);
  EXPECT_THAT(Messages(inner_), ElementsAre(0));
  InLoop([this] { runner_->Prefer(6); });
  EXPECT_THAT(Messages(inner_), ElementsAre(0, 10));
  End(inner_, 1);
  // Neither does the next of the same priority wait; another one does.
  Run(PlanOf({SendStep(20, 10)}), 3, 6);
  Run(PlanOf({SendStep(30, 10)}), 4, 7);
  EXPECT_THAT(Messages(inner_), ElementsAre(0, 20));
  InLoop([this] { runner_->Prefer(7); });
  End(inner_, 1);
  EXPECT_THAT(Messages(inner_), ElementsAre(0, 30));
}

TEST_F(PlanRunnerLaneTest, StepsWaitForAllTheirDependencies) {
  MakeRunner({1000, 1000});
  Step last = SendStep(9, 4);
  last.dependency_count = 2;
  Run(PlanOf({RecvStep(0, 4), RecvStep(1, 4, 1), last}, {0, 1}), 1);
  EXPECT_THAT(Messages(inner_), ElementsAre(0));
  End(inner_, 0);
  EXPECT_THAT(Messages(inner_), IsEmpty());
  EXPECT_EQ(runner_->UnfinishedLevel(1), 1);
  End(outer_, 0);
  EXPECT_THAT(Messages(inner_), ElementsAre(9));
  EXPECT_EQ(runner_->UnfinishedLevel(1), 0);
  EXPECT_EQ(runner_->Describe(1),
            "operation 1: no progress from rank 1 (level node); 2 of 3 steps done");
  End(inner_, 0);
  EXPECT_EQ(runner_->UnfinishedLevel(1), -1);
  ASSERT_EQ(ended_.size(), 1u);
}

TEST_F(PlanRunnerLaneTest, EmptyPlanEndsOutsideTheCall) {
  MakeRunner({1, 1});
  Run(PlanOf({}), 1);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_OK(ended_[0].second);
}

TEST_F(PlanRunnerLaneTest, CountsCompletedTransfersAndBusyTime) {
  MakeRunner({1000, 1000});
  Run(PlanOf({SendStep(0, 30), RecvStep(1, 50), SendStep(2, 7, 1)}), 1);
  loop_.Occupy(absl::Seconds(2));
  End(inner_, 1);  // the send; the receive was posted first
  EXPECT_EQ(runner_->counters(0).sent_bytes, 30);
  EXPECT_EQ(runner_->counters(0).received_bytes, 0);
  loop_.Occupy(absl::Seconds(3));
  End(inner_, 0);
  loop_.Occupy(absl::Seconds(4));
  InLoop([] {});
  EXPECT_EQ(runner_->counters(0).received_bytes, 50);
  EXPECT_EQ(runner_->counters(0).busy, absl::Seconds(5));
  EXPECT_EQ(runner_->counters(1).sent_bytes, 0);
  EXPECT_EQ(runner_->counters(1).busy, absl::Seconds(9)) << "it is still busy";
}

TEST_F(PlanRunnerLaneTest, ErrorEndsTheLaneOnceLentBuffersAreBack) {
  MakeRunner({1000, 1000});
  Run(PlanOf({SendStep(0, 30), RecvStep(1, 50, 1)}), 1);
  Run(PlanOf({RecvStep(2, 50), RecvStep(3, 50)}), 2);
  End(outer_, 0, absl::UnavailableError("peer 2 (host b): connection reset"));
  // Both transports are told, and nothing is reported while they hold buffers.
  ASSERT_EQ(inner_.aborts.size(), 1u);
  ASSERT_EQ(outer_.aborts.size(), 1u);
  EXPECT_THAT(ended_, IsEmpty());
  End(inner_, 0, absl::CancelledError("of the send"));
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].first, 1u);
  EXPECT_EQ(ended_[0].second,
            absl::UnavailableError("test: level cluster: peer 2 (host b): connection reset"));
  End(inner_, 0, absl::CancelledError("of a receive"));
  EXPECT_EQ(ended_.size(), 1u);
  End(inner_, 0);  // this one made it
  ASSERT_EQ(ended_.size(), 2u);
  EXPECT_EQ(ended_[1].second, ended_[0].second);
  Run(PlanOf({SendStep(0, 30)}), 3);
  ASSERT_EQ(ended_.size(), 3u);
  EXPECT_EQ(ended_[2].second, ended_[0].second);
  EXPECT_THAT(inner_.pending, IsEmpty());
}

TEST_F(PlanRunnerLaneTest, AbortKeepsTheFirstReason) {
  MakeRunner({1000, 1000});
  Run(PlanOf({RecvStep(0, 50)}), 1);
  InLoop([this] {
    runner_->Abort(absl::AbortedError("first"));
    runner_->Abort(absl::AbortedError("second"));
  });
  EXPECT_THAT(inner_.aborts, ElementsAre(absl::AbortedError("first")));
  EXPECT_THAT(ended_, IsEmpty());
  End(inner_, 0, absl::AbortedError("first"));
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].second, absl::AbortedError("first"));
}

TEST_F(PlanRunnerLaneTest, DestroyedInTheLoopItsRunsEndWhenBuffersAreBack) {
  MakeRunner({1000, 1000});
  Run(PlanOf({RecvStep(0, 50), SendStep(1, 20)}), 1);
  InLoop([this] { runner_.reset(); });
  ASSERT_EQ(inner_.aborts.size(), 1u);
  End(inner_, 0, inner_.aborts[0]);
  EXPECT_THAT(ended_, IsEmpty());
  End(inner_, 0, inner_.aborts[0]);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].second.code(), absl::StatusCode::kCancelled);
}

TEST_F(PlanRunnerLaneTest, DestroyedOutsideTheLoopItsCallbacksDoNoHarm) {
  MakeRunner({20, 1000});
  Run(PlanOf({RecvStep(0, 50), SendStep(1, 20), SendStep(2, 20)}), 1);
  runner_.reset();
  EXPECT_THAT(inner_.aborts, IsEmpty());
  End(inner_, 1);
  EXPECT_THAT(Messages(inner_), ElementsAre(0)) << "nothing new is started";
  inner_.pending.clear();  // dropped without a call
}

TEST_F(PlanRunnerLaneTest, MayBeDestroyedByADone) {
  MakeRunner({1000, 1000});
  InLoop([this] {
    runner_->Run(PlanOf({RecvStep(0, 50)}), memory_.buffers(), {.what = "test"},
                 [this](absl::Status status) {
                   EXPECT_OK(status);
                   runner_.reset();
                 });
  });
  End(inner_, 0);
  EXPECT_EQ(runner_, nullptr);
}

}  // namespace
}  // namespace strata
