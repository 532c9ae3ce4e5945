#include <memory>
#include <vector>

#include "comm/faulty_transport.h"
#include "comm/shaped_transport.h"
#include "comm/sim/sim_world.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/comm/held_transport.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const absl::Time kStart = absl::UnixEpoch();
const absl::Time kEnd = kStart + absl::Hours(1);

class DelayingTransportTest : public testing::Test {
 protected:
  // Sends of `sizes` bytes to rank 1 at the start, all at once.
  void Send(Transport& transport, const std::vector<size_t>& sizes) {
    loop_.Post([this, &transport, sizes] {
      for (size_t i = 0; i < sizes.size(); ++i) {
        transport.Send(Rank{1}, {.message = static_cast<uint32_t>(i)},
                       std::span(bytes_).first(sizes[i]),
                       [this](absl::Status status) { ended_.push_back(std::move(status)); });
      }
    });
  }

  // How many sends had been handed on by `when`.
  size_t HandedOnBy(absl::Duration when) {
    EXPECT_FALSE(world_.RunUntil([] { return false; }, kStart + when));
    return inner_.pending.size();
  }

  SimWorld world_{{}};
  SimLoop& loop_ = world_.MakeLoop("lane");
  HeldTransport inner_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(5000);
  std::vector<absl::Status> ended_;
};

TEST_F(DelayingTransportTest, ShapedSendsTakeTurnsAndTravel) {
  ShapedTransport shaped(loop_, inner_,
                         {.bytes_per_second = 1000, .latency = absl::Milliseconds(500)});
  Send(shaped, {1000, 0, 2000});
  EXPECT_EQ(HandedOnBy(absl::Milliseconds(1499)), 0u);
  EXPECT_EQ(HandedOnBy(absl::Milliseconds(1500)), 2u);
  EXPECT_EQ(HandedOnBy(absl::Milliseconds(3499)), 2u);
  EXPECT_EQ(HandedOnBy(absl::Milliseconds(3500)), 3u);
}

TEST_F(DelayingTransportTest, AbortEndsWhatIsHeldBack) {
  ShapedTransport shaped(loop_, inner_, {.bytes_per_second = 1000});
  Send(shaped, {1000, 1000});
  EXPECT_EQ(HandedOnBy(absl::Seconds(1)), 1u);
  loop_.Post([&] { shaped.Abort(absl::AbortedError("enough")); });
  EXPECT_TRUE(world_.RunUntilIdle(kEnd));
  EXPECT_THAT(ended_, ElementsAre(absl::AbortedError("enough")));
  EXPECT_THAT(inner_.aborts, ElementsAre(absl::AbortedError("enough")));
  EXPECT_EQ(inner_.pending.size(), 1u);
}

TEST_F(DelayingTransportTest, FaultySendsFailAsTheSeedSays) {
  const auto failed = [&](uint64_t seed) {
    ended_.clear();
    inner_.pending.clear();
    FaultyTransport faulty(loop_, inner_, {.seed = seed, .fail_one_in = 4});
    Send(faulty, std::vector<size_t>(400, 3));
    EXPECT_TRUE(world_.RunUntilIdle(kEnd));
    for (const absl::Status& status : ended_) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("peer 1")));
    }
    EXPECT_EQ(ended_.size() + inner_.pending.size(), 400u);
    std::vector<uint32_t> arrived;
    for (const auto& request : inner_.pending) arrived.push_back(request.tag.message);
    return arrived;
  };
  const std::vector<uint32_t> arrived = failed(1);
  EXPECT_GT(arrived.size(), 250u);
  EXPECT_LT(arrived.size(), 350u);
  EXPECT_EQ(failed(1), arrived);
  EXPECT_NE(failed(2), arrived);
}

TEST_F(DelayingTransportTest, FaultySendsAreLateByUpToTheirDelay) {
  FaultyTransport faulty(loop_, inner_, {.seed = 3, .send_delay = absl::Seconds(8)});
  Send(faulty, std::vector<size_t>(200, 3));
  const size_t half = HandedOnBy(absl::Seconds(4));
  EXPECT_GT(half, 50u);
  EXPECT_LT(half, 150u);
  EXPECT_EQ(HandedOnBy(absl::Seconds(8)), 200u);
}

}  // namespace
}  // namespace strata
