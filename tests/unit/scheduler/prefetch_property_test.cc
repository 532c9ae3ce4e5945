// Random models, budgets and changes of order, against rules that are checked from the actions
// alone.
#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "scheduler/prefetch_scheduler.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using Random = std::mt19937_64;

int Below(Random& random, int64_t limit) { return static_cast<int>(random() % limit); }

// Watches the calls and actions of one scheduler and checks what must always hold.
class Watcher {
 public:
  Watcher(std::vector<ScheduledUnit> units, int64_t budget)
      : units_(units), budget_(budget), copies_(units.size()), holds_(units.size()) {
    auto scheduler = PrefetchScheduler::Create(std::move(units), budget);
    EXPECT_OK(scheduler);
    scheduler_ = std::make_unique<PrefetchScheduler>(std::move(scheduler).value());
  }

  void Acquire(int unit, Phase phase) {
    ++holds_[unit];
    On({SchedulerCall::Kind::kAcquire, UnitId(unit), phase});
    if (holds_[unit] == 1 && units_[unit].gathered) {
      ++uses_;
      EXPECT_GE(copies_[unit], 1) << "unit " << unit << " is used without a gather";
    }
  }
  void Release(int unit) {
    if (--holds_[unit] == 0) copies_[unit] -= units_[unit].gathered ? 1 : 0;
    On({SchedulerCall::Kind::kRelease, UnitId(unit)});
  }
  void EndStep() {
    published_.assign(units_.size(), 0);
    in_end_step_ = true;
    On({SchedulerCall::Kind::kEndStep});
    in_end_step_ = false;
    for (size_t i = 0; i < units_.size(); ++i) {
      EXPECT_EQ(published_[i], units_[i].published ? 1 : 0) << "unit " << i;
    }
  }

  bool Fits(int unit) const {
    int64_t held = 0;
    for (size_t i = 0; i < units_.size(); ++i) {
      if (holds_[i] > 0 && units_[i].gathered) held += units_[i].bytes;
    }
    return holds_[unit] > 0 || !units_[unit].gathered || held + units_[unit].bytes <= budget_;
  }
  bool Held(int unit) const { return holds_[unit] > 0; }
  bool InFlight(int unit) const { return copies_[unit] > (Held(unit) ? 1 : 0); }
  bool Gathered(int unit) const { return units_[unit].gathered; }
  int64_t missed() const { return scheduler_->missed_prefetches(); }
  const std::vector<SchedulerAction>& all() const { return all_; }

  void CheckTotals() const {
    const int64_t in_flight = std::accumulate(copies_.begin(), copies_.end(), int64_t{0});
    EXPECT_EQ(gathers_, uses_ + drops_ + in_flight);
    EXPECT_EQ(drops_, scheduler_->dropped_prefetches());
    EXPECT_EQ(peak_, scheduler_->peak_bytes());
  }

 private:
  void On(const SchedulerCall& call) {
    std::vector<SchedulerAction> actions;
    ASSERT_OK(scheduler_->On(call, actions));
    for (const SchedulerAction& action : actions) Check(action);
    all_.insert(all_.end(), actions.begin(), actions.end());
  }

  void Check(const SchedulerAction& action) {
    const int unit = Index(action.unit);
    switch (action.kind) {
      case SchedulerAction::Kind::kPublish:
        EXPECT_TRUE(in_end_step_);
        EXPECT_EQ(copies_[unit], 0) << "published after it was gathered: unit " << unit;
        ++published_[unit];
        break;
      case SchedulerAction::Kind::kDrop:
        EXPECT_TRUE(InFlight(unit)) << "dropped but not in flight: unit " << unit;
        --copies_[unit];
        ++drops_;
        break;
      case SchedulerAction::Kind::kGather:
        EXPECT_TRUE(units_[unit].gathered);
        EXPECT_LT(copies_[unit], kUnitCopies) << "unit " << unit;
        EXPECT_TRUE(!in_end_step_ || published_[unit] == 1 || !units_[unit].published);
        ++copies_[unit];
        ++gathers_;
        int64_t promised = 0;
        for (size_t i = 0; i < units_.size(); ++i) promised += copies_[i] * units_[i].bytes;
        EXPECT_LE(promised, budget_);
        peak_ = std::max(peak_, promised);
        break;
    }
  }

  std::vector<ScheduledUnit> units_;
  int64_t budget_;
  std::unique_ptr<PrefetchScheduler> scheduler_;
  std::vector<int> copies_;  // gathered or being gathered
  std::vector<int> holds_;
  std::vector<int> published_;
  std::vector<SchedulerAction> all_;
  bool in_end_step_ = false;
  int64_t uses_ = 0, gathers_ = 0, drops_ = 0, peak_ = 0;
};

struct Model {
  std::vector<ScheduledUnit> units;
  int64_t budget = 0;
};

Model RandomModel(Random& random) {
  constexpr int kCounts[] = {1, 2, 3, 5, 7, 13, 31};
  constexpr int64_t kSizes[] = {0, 1, 3, 97, 1000, int64_t{1} << 40};
  Model model;
  const int count = kCounts[Below(random, 7)];
  const bool all_equal = Below(random, 2) == 0;
  int64_t largest = 0;
  for (int i = 0; i < count; ++i) {
    model.units.push_back({.bytes = all_equal ? 97 : kSizes[Below(random, 6)],
                           .gathered = Below(random, 6) != 0,
                           .published = Below(random, 3) != 0});
    largest = std::max(largest, model.units.back().bytes);
  }
  model.budget = 2 * largest + (Below(random, 2) == 0 ? 0 : Below(random, 5) * largest);
  return model;
}

struct Use {
  int unit = 0;
  Phase phase = Phase::kForward;
};

std::vector<Use> RandomStep(Random& random, int units) {
  std::vector<Use> uses;
  const bool recompute = Below(random, 3) == 0;
  const int micro_steps = 1 + Below(random, 3);
  for (int step = 0; step < micro_steps; ++step) {
    for (int i = 0; i < units; ++i) uses.push_back({i, Phase::kForward});
    for (int i = units - 1; i >= 0; --i) {
      if (recompute) uses.push_back({i, Phase::kRecompute});
      uses.push_back({i, Phase::kBackward});
    }
  }
  return uses;
}

void Disturb(Random& random, int units, std::vector<Use>& uses) {
  for (int changes = Below(random, 4); changes > 0 && uses.size() > 1; --changes) {
    const int at = Below(random, uses.size() - 1);
    switch (Below(random, 5)) {
      case 0:
        std::swap(uses[at], uses[at + 1]);
        break;
      case 1:
        uses.erase(uses.begin() + at, uses.begin() + at + 1 + Below(random, uses.size() - at));
        break;
      case 2:
        uses.insert(uses.begin() + at, {Below(random, units), Phase(Below(random, 3))});
        break;
      case 3:
        std::rotate(uses.begin(), uses.begin() + at, uses.end());
        break;
      case 4:
        std::shuffle(uses.begin() + at, uses.end(), random);
        break;
    }
  }
}

void Evaluate(Random& random, int units, Watcher& watcher) {
  for (int i = 0; i < units; ++i) {
    if (Below(random, 5) == 0 || !watcher.Fits(i)) continue;
    watcher.Acquire(i, Phase::kEval);
    watcher.Release(i);
  }
}

// Runs the uses of one step, some nested, some held while others are used, some interrupted.
void RunWildStep(Random& random, const std::vector<Use>& uses, int units, Watcher& watcher) {
  std::vector<int> later;
  for (const Use& use : uses) {
    while (!later.empty() && (Below(random, 3) == 0 || !watcher.Fits(use.unit))) {
      watcher.Release(later.back());
      later.pop_back();
    }
    watcher.Acquire(use.unit, use.phase);
    if (Below(random, 50) == 0) Evaluate(random, units, watcher);
    if (Below(random, 8) == 0) {
      later.push_back(use.unit);
    } else {
      watcher.Release(use.unit);
    }
  }
  for (const int unit : later) watcher.Release(unit);
  watcher.EndStep();
  if (Below(random, 4) == 0) Evaluate(random, units, watcher);
  watcher.CheckTotals();
}

std::vector<SchedulerAction> RunWildRun(uint64_t seed) {
  Random random(seed);
  const Model model = RandomModel(random);
  const int units = static_cast<int>(model.units.size());
  Watcher watcher(model.units, model.budget);
  const std::vector<Use> base = RandomStep(random, units);
  for (int step = 0; step < 6; ++step) {
    std::vector<Use> uses = base;
    if (step > 0) Disturb(random, units, uses);
    RunWildStep(random, uses, units, watcher);
  }
  return watcher.all();
}

TEST(PrefetchPropertyTest, RulesHoldWhateverTheOrder) {
  for (uint64_t seed = 0; seed < 1500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RunWildRun(seed);
  }
}

TEST(PrefetchPropertyTest, SameCallsSameActions) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto first = RunWildRun(seed), second = RunWildRun(seed);
    ASSERT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) {
      ASSERT_TRUE(first[i].kind == second[i].kind && first[i].unit == second[i].unit) << seed;
    }
  }
}

// The gathers of an undisturbed step, window and all, are the gathered units in order of use; none
// is missed, and the next use is always in flight while the application computes.
TEST(PrefetchPropertyTest, RepeatedStepIsForeseen) {
  for (uint64_t seed = 0; seed < 500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Model model = RandomModel(random);
    Watcher watcher(model.units, model.budget);
    std::vector<Use> uses = RandomStep(random, static_cast<int>(model.units.size()));
    Disturb(random, static_cast<int>(model.units.size()), uses);
    std::erase_if(uses, [&](const Use& use) { return !watcher.Gathered(use.unit); });
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < uses.size(); ++i) {
        watcher.Acquire(uses[i].unit, uses[i].phase);
        if (step > 0 && i + 1 < uses.size()) {
          EXPECT_TRUE(watcher.InFlight(uses[i + 1].unit)) << "use " << i;
        }
        watcher.Release(uses[i].unit);
      }
      watcher.EndStep();
    }
    EXPECT_EQ(watcher.missed(), 0);
    std::vector<int> gathers, expected;
    for (const SchedulerAction& action : watcher.all()) {
      EXPECT_NE(action.kind, SchedulerAction::Kind::kDrop);
      if (action.kind == SchedulerAction::Kind::kGather) gathers.push_back(Index(action.unit));
    }
    for (int step = 0; step < 4; ++step) {  // the fourth is foreseen in part
      for (const Use& use : uses) expected.push_back(use.unit);
    }
    ASSERT_LE(gathers.size(), expected.size());
    expected.resize(gathers.size());
    EXPECT_EQ(gathers, expected);
    watcher.CheckTotals();
  }
}

}  // namespace
}  // namespace strata
