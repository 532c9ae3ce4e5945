#include "scheduler/prefetch_scheduler.h"

#include <numeric>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Phase F = Phase::kForward, B = Phase::kBackward, R = Phase::kRecompute, E = Phase::kEval;

std::string ToString(const std::vector<SchedulerAction>& actions) {
  return absl::StrJoin(actions, " ", [](std::string* out, const SchedulerAction& action) {
    const char* kind = action.kind == SchedulerAction::Kind::kGather    ? "G"
                       : action.kind == SchedulerAction::Kind::kPublish ? "P"
                                                                        : "D";
    absl::StrAppend(out, kind, Index(action.unit));
  });
}

// One scheduler, with calls that answer the actions they led to, as text.
class Driver {
 public:
  Driver(std::vector<ScheduledUnit> units, int64_t budget)
      : scheduler_(*PrefetchScheduler::Create(std::move(units), budget)) {}

  std::string Acquire(int unit, Phase phase) {
    return Call({SchedulerCall::Kind::kAcquire, UnitId(unit), phase});
  }
  std::string Release(int unit) { return Call({SchedulerCall::Kind::kRelease, UnitId(unit)}); }
  std::string EndStep() { return Call({SchedulerCall::Kind::kEndStep}); }
  std::string Use(int unit, Phase phase) {
    const std::string acquired = Acquire(unit, phase);
    const std::string released = Release(unit);
    return acquired + "|" + released;
  }
  absl::Status Try(const SchedulerCall& call) {
    std::vector<SchedulerAction> actions;
    const absl::Status status = scheduler_.On(call, actions);
    EXPECT_TRUE(status.ok() || actions.empty());
    return status;
  }
  int64_t missed() const { return scheduler_.missed_prefetches(); }
  int64_t dropped() const { return scheduler_.dropped_prefetches(); }
  int64_t peak() const { return scheduler_.peak_bytes(); }

 private:
  std::string Call(const SchedulerCall& call) {
    std::vector<SchedulerAction> actions;
    EXPECT_OK(scheduler_.On(call, actions));
    return ToString(actions);
  }
  PrefetchScheduler scheduler_;
};

std::vector<ScheduledUnit> Units(int count, int64_t bytes = 1) {
  return std::vector<ScheduledUnit>(count, {.bytes = bytes, .gathered = true, .published = true});
}

void Forward(Driver& driver, const std::vector<int>& units) {
  for (const int unit : units) driver.Use(unit, F);
}

std::vector<int> Iota(int count) {
  std::vector<int> units(count);
  std::iota(units.begin(), units.end(), 0);
  return units;
}

// One step of `micro_steps` passes forward and backward over `units`.
void RunStep(Driver& driver, const std::vector<int>& units, int micro_steps) {
  for (int i = 0; i < micro_steps; ++i) {
    for (const int unit : units) driver.Use(unit, F);
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) driver.Use(*unit, B);
  }
  driver.EndStep();
}

TEST(PrefetchSchedulerTest, FirstStepGathersOnDemand) {
  Driver driver(Units(3), 2);
  EXPECT_EQ(driver.Use(0, F), "G0|");
  EXPECT_EQ(driver.Use(1, F), "G1|");
  EXPECT_EQ(driver.Use(2, F), "G2|");
  EXPECT_EQ(driver.Use(2, B), "G2|");
  EXPECT_EQ(driver.missed(), 0);
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2");
}

TEST(PrefetchSchedulerTest, WindowSlidesInTheRecordsOrder) {
  Driver driver(Units(3), 2);
  RunStep(driver, {0, 1, 2}, 1);
  EXPECT_EQ(driver.Use(0, F), "|G2");
  // Unit 2 is in flight for its forward, and for its backward as well.
  EXPECT_EQ(driver.Use(1, F), "|G2");
  EXPECT_EQ(driver.Use(2, F), "|G1");
  EXPECT_EQ(driver.Use(2, B), "|G0");
  EXPECT_EQ(driver.Use(1, B), "|");
  EXPECT_EQ(driver.Use(0, B), "|");
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2");
  EXPECT_EQ(driver.missed(), 0);
  EXPECT_EQ(driver.dropped(), 0);
  EXPECT_EQ(driver.peak(), 2);
}

TEST(PrefetchSchedulerTest, DoesNotSkipAUnitThatDoesNotFit) {
  std::vector<ScheduledUnit> units = Units(4);
  units[2].bytes = 5;
  Driver driver(units, 10);
  Forward(driver, {0, 2, 1, 2, 3});
  // After 0, 2 and 1 comes the second use of 2, which waits for the first; 3 waits behind it.
  EXPECT_EQ(driver.EndStep(), "P0 G0 P2 G2 P1 G1 P3");
  EXPECT_EQ(driver.Use(0, F), "|");
  EXPECT_EQ(driver.Use(2, F), "|G2 G3");
}

TEST(PrefetchSchedulerTest, SecondUseIsASecondGather) {
  Driver driver(Units(1), 9);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(driver.Use(0, F), step == 0 ? "G0|" : "|G0");
    EXPECT_EQ(driver.Use(0, R), step == 0 ? "G0|" : "|");
    EXPECT_EQ(driver.Use(0, B), step == 0 ? "G0|" : "|");
    EXPECT_EQ(driver.EndStep(), "P0 G0 G0");  // the third use waits, whatever the budget
  }
  EXPECT_EQ(driver.peak(), 2);
}

TEST(PrefetchSchedulerTest, NextUseIsInFlightWhileTheUnitIsHeld) {
  Driver driver(Units(2), 3);
  Forward(driver, {0, 1, 1, 0});
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 G1");
  EXPECT_EQ(driver.Use(0, F), "|G0");
  EXPECT_EQ(driver.Acquire(1, F), "");
  EXPECT_EQ(driver.Release(1), "");
  EXPECT_EQ(driver.Use(1, F), "|");
  EXPECT_EQ(driver.Use(0, F), "|");
  EXPECT_EQ(driver.missed(), 0);
}

TEST(PrefetchSchedulerTest, UseLeftOutCostsItsOwnCopyOnly) {
  Driver driver(Units(3), 6);
  Forward(driver, {0, 1, 2, 1});
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2 G2 G1");
  driver.Use(0, F);
  EXPECT_EQ(driver.Use(2, F), "|");
  EXPECT_EQ(driver.Use(1, F), "D1|");  // the one expected now: of its two copies one is left over
  EXPECT_EQ(driver.EndStep(), "P0 G0 P2 G2 P1 G1");
  EXPECT_EQ(driver.missed(), 0);
  EXPECT_EQ(driver.dropped(), 1);
}

TEST(PrefetchSchedulerTest, OnDemandDropsASecondCopyBeforeAFirst) {
  Driver driver(Units(4), 4);
  Forward(driver, {0, 1, 2, 1});
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2 G2 G1 P3");
  EXPECT_EQ(driver.Acquire(3, F), "D1 G3");
  EXPECT_EQ(driver.Release(3), "G1");
}

TEST(PrefetchSchedulerTest, UnitsThatAreAlwaysThereNeedOnlyThePublish) {
  std::vector<ScheduledUnit> units = Units(5, 1 << 20);
  for (ScheduledUnit& unit : units) unit.gathered = false;
  Driver driver(units, 0);
  EXPECT_EQ(driver.Use(3, F), "|");
  EXPECT_EQ(driver.Use(1, F), "|");
  EXPECT_EQ(driver.EndStep(), "P3 P1 P0 P2 P4");
  EXPECT_EQ(driver.Use(3, F), "|");
  EXPECT_EQ(driver.missed(), 0);
  EXPECT_EQ(driver.peak(), 0);
}

TEST(PrefetchSchedulerTest, MixedUnits) {
  std::vector<ScheduledUnit> units = Units(4);
  units[1].gathered = false;   // replicated
  units[2].published = false;  // its optimizer's shard is its parameters' shard
  Driver driver(units, 3);
  Forward(driver, {0, 1, 2, 3});
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G2 P3 G3");
}

TEST(PrefetchSchedulerTest, TiedUnitIsHeldFromFirstToLastUse) {
  Driver driver(Units(3), 3);
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(driver.Acquire(0, F), step == 0 ? "G0" : "");
    EXPECT_EQ(driver.Use(1, F), step == 0 ? "G1|" : "|G0");
    EXPECT_EQ(driver.Acquire(0, F), "");
    EXPECT_EQ(driver.Release(0), "");
    driver.Use(2, F);
    EXPECT_EQ(driver.Release(0), "");
    EXPECT_EQ(driver.Use(0, B), step == 0 ? "G0|" : "|");
    EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2 G2");
  }
  EXPECT_EQ(driver.missed(), 0);
}

TEST(PrefetchSchedulerTest, TwoUnitsThatChangePlacesCostNothing) {
  Driver driver(Units(6), 3);
  Forward(driver, Iota(6));
  driver.EndStep();
  Forward(driver, {0, 2, 1, 3, 5, 4});
  EXPECT_EQ(driver.missed(), 0);
  EXPECT_EQ(driver.dropped(), 0);
  driver.EndStep();
  Forward(driver, {0, 2, 1, 3, 5, 4});  // the new order is the record now
  EXPECT_EQ(driver.missed(), 0);
}

TEST(PrefetchSchedulerTest, UnitLeftOutCostsItsGather) {
  Driver driver(Units(7), 2);
  Forward(driver, Iota(7));
  driver.EndStep();
  driver.Use(0, F);
  EXPECT_EQ(driver.Use(2, F), "|G3");  // unit 1 is kept: it might have changed places with unit 2
  EXPECT_EQ(driver.Use(3, F), "D1 G4|G5");
  Forward(driver, {4, 5, 6});
  EXPECT_EQ(driver.missed(), 0);
  EXPECT_EQ(driver.dropped(), 1);
}

TEST(PrefetchSchedulerTest, AdditionalUseCostsOneMiss) {
  for (const int micro_steps : {1, 4}) {
    Driver driver(Units(11), 3);
    RunStep(driver, Iota(11), micro_steps);
    Forward(driver, {0, 1, 2, 0, 3, 4, 5, 6, 7, 8, 9, 10});
    EXPECT_EQ(driver.missed(), 1) << micro_steps;
  }
}

TEST(PrefetchSchedulerTest, ManyUnitsLeftOutCostTwoMisses) {
  Driver driver(Units(31), 3);
  Forward(driver, Iota(31));
  driver.EndStep();
  Forward(driver, {0, 1, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30});
  EXPECT_EQ(driver.missed(), 2);
}

TEST(PrefetchSchedulerTest, BranchesThatAlternateCostOneMissEach) {
  Driver driver(Units(8), 2);
  Forward(driver, {0, 1, 2, 4, 5, 6, 7});
  driver.EndStep();
  for (int step = 1; step < 8; ++step) {
    Forward(driver, {0, 1, step % 2 == 0 ? 2 : 3, 4, 5, 6, 7});
    EXPECT_EQ(driver.missed(), step);
    // The branch not taken, and the unit after it to make room: gathered again during the branch.
    EXPECT_EQ(driver.dropped(), 2 * step);
    driver.EndStep();
  }
}

TEST(PrefetchSchedulerTest, OnDemandDropsTheFarthestFirst) {
  Driver driver(Units(9), 4);
  Forward(driver, Iota(8));
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2 G2 P3 G3 P4 P5 P6 P7 P8");
  EXPECT_EQ(driver.Acquire(8, F), "D3 G8");
  EXPECT_EQ(driver.Release(8), "G3");
  EXPECT_EQ(driver.missed(), 1);
}

TEST(PrefetchSchedulerTest, ShorterStepDropsWhatItDidNotUse) {
  Driver driver(Units(5), 2);
  Forward(driver, Iota(5));
  driver.EndStep();
  driver.Use(0, F);
  EXPECT_EQ(driver.EndStep(), "D1 D2 P0 G0 P1 P2 P3 P4");
  EXPECT_EQ(driver.dropped(), 2);
}

TEST(PrefetchSchedulerTest, EvaluationLeavesTheRecordAlone) {
  Driver driver(Units(4), 2);
  Forward(driver, Iota(4));
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2 P3");
  EXPECT_EQ(driver.Use(0, E), "|");  // was in flight
  EXPECT_EQ(driver.Use(1, E), "|");
  EXPECT_EQ(driver.Use(2, E), "G2|");
  EXPECT_EQ(driver.Use(3, E), "G3|");
  EXPECT_EQ(driver.missed(), 0);
  EXPECT_EQ(driver.Use(0, F), "G0 G1|G2");
  EXPECT_EQ(driver.missed(), 1);
  Forward(driver, {1, 2, 3});
  EXPECT_EQ(driver.EndStep(), "P0 G0 P1 G1 P2 P3");
  EXPECT_EQ(driver.missed(), 1);
}

TEST(PrefetchSchedulerTest, EvaluationInAStepDropsUnderPressure) {
  Driver driver(Units(4), 2);
  Forward(driver, Iota(4));
  driver.EndStep();
  EXPECT_EQ(driver.Acquire(0, F), "");
  EXPECT_EQ(driver.Use(3, E), "D1 G3|");
  EXPECT_EQ(driver.Release(0), "G1 G2");
  EXPECT_EQ(driver.Use(1, F), "|G3");
  EXPECT_EQ(driver.missed(), 0);
}

TEST(PrefetchSchedulerTest, RefusesWhatCannotBe) {
  Driver driver(Units(3), 2);
  const auto acquire = [](int unit) {
    return SchedulerCall{SchedulerCall::Kind::kAcquire, UnitId(unit)};
  };
  const auto release = [](int unit) {
    return SchedulerCall{SchedulerCall::Kind::kRelease, UnitId(unit)};
  };
  EXPECT_THAT(driver.Try(release(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("unit 1 is released")));
  EXPECT_THAT(driver.Try(acquire(3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are 3 units")));
  EXPECT_THAT(driver.Try(release(-1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unit -1")));
  ASSERT_OK(driver.Try(acquire(0)));
  EXPECT_THAT(driver.Try({SchedulerCall::Kind::kEndStep}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("unit 0 is held")));
  ASSERT_OK(driver.Try(acquire(1)));
  EXPECT_THAT(driver.Try(acquire(2)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("unit 2 needs 1 bytes"), HasSubstr("leave 0 of 2"),
                             HasSubstr("prefetch.bytes"))));
  ASSERT_OK(driver.Try(release(1)));
  ASSERT_OK(driver.Try(acquire(2)));
}

TEST(PrefetchSchedulerTest, BudgetHoldsTheUnitInUseAndTheNext) {
  std::vector<ScheduledUnit> units = Units(3, 7);
  units[1].bytes = 11;
  EXPECT_THAT(
      PrefetchScheduler::Create(units, 21),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("unit 1 needs 11"), HasSubstr("21"), HasSubstr("prefetch.bytes"))));
  EXPECT_OK(PrefetchScheduler::Create(units, 22));
  units[1].gathered = false;
  EXPECT_OK(PrefetchScheduler::Create(units, 14));
  units[0].bytes = -1;
  EXPECT_THAT(PrefetchScheduler::Create(units, 14),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unit 0")));
  EXPECT_OK(PrefetchScheduler::Create({}, 0));
}

}  // namespace
}  // namespace strata
