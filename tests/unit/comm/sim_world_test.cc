#include "comm/sim/sim_world.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using testing::ElementsAre;

const absl::Time kStart = absl::UnixEpoch();
const absl::Time kEnd = kStart + absl::Hours(1);

TEST(SimWorldTest, KeepsTheOrderOfALoopAndInterleavesLoops) {
  std::vector<std::string> traces;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimWorld world({.seed = seed});
    SimLoop& a = world.MakeLoop("a");
    SimLoop& b = world.MakeLoop("b");
    std::string trace;
    for (int i = 0; i < 4; ++i) {
      a.Post([&trace, i] { trace += static_cast<char>('0' + i); });
      b.Post([&trace, i] { trace += static_cast<char>('a' + i); });
    }
    ASSERT_TRUE(world.RunUntilIdle(kEnd));
    std::string of_a, of_b;
    for (const char c : trace) (c < 'a' ? of_a : of_b) += c;
    EXPECT_EQ(of_a, "0123");
    EXPECT_EQ(of_b, "abcd");
    traces.push_back(trace);
  }
  std::sort(traces.begin(), traces.end());
  EXPECT_GT(std::unique(traces.begin(), traces.end()) - traces.begin(), 5);
}

TEST(SimWorldTest, BusyLoopHoldsBackWhatFollows) {
  SimWorld world({});
  SimLoop& busy = world.MakeLoop("busy");
  SimLoop& other = world.MakeLoop("other");
  std::vector<std::pair<char, absl::Duration>> ran;
  const auto note = [&](char what, const Loop& loop) {
    ran.emplace_back(what, loop.Now() - kStart);
  };
  busy.Post([&] {
    other.Post([&] { note('o', other); });  // before the time is spent
    busy.Occupy(absl::Seconds(2));
    note('b', busy);
    other.Post([&] { note('p', other); });  // after it
    busy.Post([&] { note('c', busy); });
  });
  ASSERT_TRUE(world.RunUntilIdle(kEnd));
  ASSERT_EQ(ran.size(), 4u);
  EXPECT_EQ(ran[0], (std::pair<char, absl::Duration>('b', absl::Seconds(2))));
  EXPECT_EQ(ran[1], (std::pair<char, absl::Duration>('o', absl::ZeroDuration())));
  std::sort(ran.begin() + 2, ran.end());
  EXPECT_EQ(ran[2], (std::pair<char, absl::Duration>('c', absl::Seconds(2))));
  EXPECT_EQ(ran[3], (std::pair<char, absl::Duration>('p', absl::Seconds(2))));
}

TEST(SimWorldTest, TimersRunAtTheirTimeUnlessCancelled) {
  SimWorld world({});
  SimLoop& loop = world.MakeLoop("loop");
  std::vector<int> ran;
  loop.Post([&] {
    loop.PostAt(kStart + absl::Seconds(3), [&] { ran.push_back(3); });
    loop.PostAt(kStart + absl::Seconds(1), [&] {
      ran.push_back(1);
      EXPECT_EQ(loop.Now(), kStart + absl::Seconds(1));
    });
    const TimerId cancelled = loop.PostAt(kStart + absl::Seconds(2), [&] { ran.push_back(2); });
    loop.Cancel(cancelled);
    loop.Cancel(cancelled);
  });
  EXPECT_FALSE(world.RunUntilIdle(kStart + absl::Seconds(2)));
  EXPECT_THAT(ran, ElementsAre(1));
  EXPECT_TRUE(world.RunUntilIdle(kEnd));
  EXPECT_THAT(ran, ElementsAre(1, 3));
}

TEST(SimWorldTest, StoppedLoopRunsNothing) {
  SimWorld world({});
  SimLoop& loop = world.MakeLoop("loop");
  int ran = 0;
  loop.Post([&] {
    ++ran;
    loop.PostAt(kStart + absl::Seconds(1), [&] { ++ran; });
    loop.Post([&] { ++ran; });
    loop.Stop();
  });
  EXPECT_TRUE(world.RunUntilIdle(kEnd));
  EXPECT_EQ(ran, 1);
}

TEST(SimWorldTest, EqualSeedsGiveEqualTraces) {
  const auto run = [](uint64_t seed) {
    SimWorld world({.seed = seed, .task_delay = absl::Milliseconds(1)});
    for (int i = 0; i < 5; ++i) {
      SimLoop& loop = world.MakeLoop("loop");
      for (int task = 0; task < 5; ++task) loop.Post([] {});
    }
    EXPECT_TRUE(world.RunUntilIdle(kEnd));
    return world.trace_hash();
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace strata
