#include "comm/asio_loop.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/gate.h"

namespace strata {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(20);

TEST(AsioLoop, RunsTasksInOrderAndInTheLoop) {
  AsioLoop loop("test");
  std::vector<int> order;
  Gate ended;
  EXPECT_FALSE(loop.InLoop());
  for (int i = 0; i < 7; ++i) {
    loop.Post([&, i] {
      EXPECT_TRUE(loop.InLoop());
      order.push_back(i);
      if (i == 6) ended.Open();
    });
  }
  ASSERT_TRUE(ended.WaitFor(kLimit));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

// Both have expired when the first runs.
TEST(AsioLoop, ATimerCanCancelOneThatHasExpiredToo) {
  AsioLoop loop("test");
  Gate ended;
  bool second_ran = false;
  loop.Post([&] {
    const absl::Time past = loop.Now() - absl::Seconds(1);
    auto second = std::make_shared<TimerId>();
    loop.PostAt(past, [&loop, second] { loop.Cancel(*second); });
    *second = loop.PostAt(past + absl::Milliseconds(1), [&] { second_ran = true; });
    loop.PostAt(loop.Now() + absl::Milliseconds(20), [&] { ended.Open(); });
  });
  ASSERT_TRUE(ended.WaitFor(kLimit));
  EXPECT_FALSE(second_ran);
}

TEST(AsioLoop, DropsTimersAtItsEnd) {
  bool ran = false;
  {
    AsioLoop loop("test");
    loop.Post([&] { loop.PostAt(loop.Now() + absl::Hours(1), [&] { ran = true; }); });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace strata
