#include "tests/contract/early_messages.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/contract/transfers.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

// Too long for four of them in the store of 4 MiB.
constexpr size_t kBytes = (1 << 20) + 1;
constexpr int kMessages = 10, kStored = 3;

// A rank that is several operations ahead.
class Ahead {
 public:
  explicit Ahead(const MeshFactory& make) : mesh_(make(2)), transfers_(mesh_) {
    for (uint32_t message = 0; message < kMessages; ++message) {
      const int seed = static_cast<int>(message);
      sends_.push_back(&transfers_.Send(0, 1, TagOf(2, message), Pattern(kBytes, seed)));
    }
  }

  TransportMesh& mesh() { return *mesh_; }
  Transfers& transfers() { return transfers_; }

  // Receives one message, whatever others came before it.
  void Take(uint32_t message) {
    Operation& receive = transfers_.Recv(1, 0, TagOf(2, message), kBytes);
    ASSERT_TRUE(mesh_->WaitUntil([&] { return receive.outcome->ended(); }, kLimit)) << message;
    EXPECT_OK(receive.outcome->status());
    EXPECT_TRUE(receive.bytes == sends_[message]->bytes) << "message " << message;
  }
  int sent() const {
    return static_cast<int>(std::count_if(sends_.begin(), sends_.end(), [](const Operation* send) {
      return send->outcome->ended();
    }));
  }
  const std::vector<Operation*>& sends() const { return sends_; }

 private:
  std::unique_ptr<TransportMesh> mesh_;
  Transfers transfers_;
  std::vector<Operation*> sends_;
};

TEST_P(EarlyMessages, DoNotHoldUpTheOneThatIsWaitedFor) {
  Ahead ahead(GetParam());
  for (uint32_t message = kMessages; message-- > 0;) ahead.Take(message);
  ahead.transfers().WaitAll();
}

TEST_P(EarlyMessages, GoAsFarAsTheStoreAndEndWhenTheyAreTaken) {
  Ahead ahead(GetParam());
  ASSERT_TRUE(ahead.mesh().WaitUntil([&] { return ahead.sent() == kStored; }, kLimit));
  // It goes last: what went before its announcement has ended before it arrives.
  ahead.Take(kMessages - 1);
  EXPECT_LE(ahead.sent(), kStored + 1);
  ahead.Take(0);
  ASSERT_TRUE(ahead.mesh().WaitUntil([&] { return ahead.sent() == kStored + 2; }, kLimit));
  for (uint32_t message = 1; message < kMessages - 1; ++message) ahead.Take(message);
  ahead.transfers().WaitAll();
  for (const Operation* send : ahead.sends()) EXPECT_OK(send->outcome->status());
}

TEST_P(EarlyMessages, EndWithTheReasonWhenTheyAreHeldAtAnAbort) {
  Ahead ahead(GetParam());
  ASSERT_TRUE(ahead.mesh().WaitUntil([&] { return ahead.sent() == kStored; }, kLimit));
  auto closed = std::make_shared<Outcome>();
  ahead.transfers().OnLoop(0, [closed](Transport& transport) {
    transport.Close([closed](absl::Status status) { closed->Set(std::move(status), true, false); });
  });
  ahead.transfers().Settle(0);
  EXPECT_FALSE(closed->ended());
  ahead.transfers().OnLoop(0, [](Transport& t) { t.Abort(absl::AbortedError("enough")); });
  ahead.transfers().WaitAll();
  EXPECT_TRUE(ahead.mesh().WaitUntil([&] { return closed->ended(); }, kLimit));
  for (int message = kStored; message < kMessages; ++message) {
    EXPECT_THAT(ahead.sends()[message]->outcome->status(),
                StatusIs(absl::StatusCode::kAborted, testing::HasSubstr("enough")));
  }
}

TEST_P(EarlyMessages, EndWhenThePeerIsLost) {
  Ahead ahead(GetParam());
  ASSERT_TRUE(ahead.mesh().WaitUntil([&] { return ahead.sent() == kStored; }, kLimit));
  ahead.mesh().Vanish(Rank{1});
  ahead.transfers().WaitAll();
  for (int message = kStored; message < kMessages; ++message) {
    EXPECT_THAT(ahead.sends()[message]->outcome->status(),
                StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("peer 1")));
  }
}

TEST_P(EarlyMessages, OfAnotherOrderEndBothSidesThoughTheyAreHeld) {
  Ahead ahead(GetParam());
  ASSERT_TRUE(ahead.mesh().WaitUntil([&] { return ahead.sent() == kStored; }, kLimit));
  Operation& receive = ahead.transfers().Recv(1, 0, TagOf(2, kMessages - 1, 5), kBytes);
  ahead.transfers().WaitAll();
  EXPECT_THAT(receive.outcome->status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("peer 0")));
  for (int message = kStored; message < kMessages; ++message) {
    EXPECT_THAT(ahead.sends()[message]->outcome->status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("peer 1")));
  }
}

}  // namespace
}  // namespace strata
