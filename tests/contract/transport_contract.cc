#include "tests/contract/transport_contract.h"

#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "tests/contract/transfers.h"
#include "tests/support/status_matchers.h"

namespace strata {

using testing::AllOf;
using testing::HasSubstr;

bool WaitInRealTime(absl::FunctionRef<bool()> done, absl::Duration limit) {
  const absl::Time end = absl::Now() + limit;
  while (!done()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Microseconds(200));
  }
  return true;
}

void TransportContract::Connect(int size) {
  mesh_ = GetParam()(size);
  ASSERT_NE(mesh_, nullptr);
}

namespace {

constexpr size_t kSizes[] = {0, 1, 7, 4099, 65536, (1 << 20) + 13, 3 << 20};

TEST_P(TransportContract, DeliversToReceivesPostedBefore) {
  Connect(2);
  Transfers transfers(mesh_);
  std::vector<std::pair<Operation*, Operation*>> pairs;
  uint32_t message = 0;
  for (const size_t size : kSizes) {
    pairs.emplace_back(nullptr, &transfers.Recv(1, 0, TagOf(5, message++), size));
  }
  transfers.Settle(1);
  message = 0;
  for (const size_t size : kSizes) {
    pairs[message].first = &transfers.Send(0, 1, TagOf(5, message), Pattern(size, message));
    ++message;
  }
  transfers.WaitAll();
  for (const auto& [send, recv] : pairs) {
    EXPECT_OK(send->outcome->status());
    EXPECT_OK(recv->outcome->status());
    EXPECT_TRUE(send->bytes == recv->bytes) << send->bytes.size() << " bytes differ";
  }
}

TEST_P(TransportContract, DeliversMessagesThatCameBeforeTheirReceive) {
  Connect(2);
  Transfers transfers(mesh_);
  // Small enough that any transport takes all of them before a receive is there.
  std::vector<Operation*> sends, receives;
  for (uint32_t message = 0; message < 9; ++message) {
    sends.push_back(&transfers.Send(0, 1, TagOf(1, message), Pattern(message * 131, message)));
  }
  // This one arrives after them, so they have arrived too.
  sends.push_back(&transfers.Send(0, 1, TagOf(2, 0), Pattern(3, 9)));
  Operation& last = transfers.Recv(1, 0, TagOf(2, 0), 3);
  ASSERT_TRUE(mesh_->WaitUntil([&] { return last.outcome->ended(); }, kLimit));
  for (uint32_t message = 9; message-- > 0;) {
    receives.push_back(&transfers.Recv(1, 0, TagOf(1, message), message * 131));
  }
  transfers.WaitAll();
  for (uint32_t message = 0; message < 9; ++message) {
    EXPECT_OK(receives[8 - message]->outcome->status());
    EXPECT_TRUE(receives[8 - message]->bytes == sends[message]->bytes) << "message " << message;
  }
}

TEST_P(TransportContract, MatchesByPeerOperationAndMessage) {
  Connect(3);
  Transfers transfers(mesh_);
  std::vector<std::pair<Operation*, Operation*>> pairs;
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      for (uint32_t operation = 7; operation-- > 4;) {
        for (uint32_t message = 0; message < 3; ++message) {
          const int seed = static_cast<int>(message + 10 * operation + 100 * from + 1000 * to);
          const Tag tag = TagOf(operation, message, operation * 3);
          Operation& recv = transfers.Recv(to, from, tag, 1009);
          pairs.emplace_back(&transfers.Send(from, to, tag, Pattern(1009, seed)), &recv);
        }
      }
    }
  }
  transfers.WaitAll();
  for (const auto& [send, recv] : pairs) EXPECT_TRUE(send->bytes == recv->bytes);
}

TEST_P(TransportContract, CarriesWideTags) {
  Connect(2);
  Transfers transfers(mesh_);
  const Tag tag = TagOf((1u << 20) - 1, (1u << 20) - 2, (1u << 12) - 3);
  Operation& send = transfers.Send(0, 1, tag, Pattern(977, 1));
  Operation& recv = transfers.Recv(1, 0, tag, 977);
  transfers.WaitAll();
  EXPECT_OK(recv.outcome->status());
  EXPECT_TRUE(send.bytes == recv.bytes);
}

TEST_P(TransportContract, KeepsManyMessagesInFlight) {
  Connect(2);
  Transfers transfers(mesh_);
  constexpr uint32_t kMessages = 400;
  std::vector<std::pair<Operation*, Operation*>> pairs;
  for (int self = 0; self < 2; ++self) {
    for (uint32_t i = 0; i < kMessages; ++i) {
      // Receives are posted in another order than messages are sent.
      const uint32_t other = (i * 77 + 5) % kMessages;
      pairs.emplace_back(nullptr, &transfers.Recv(1 - self, self, TagOf(3, other), 500 + other));
    }
    for (uint32_t i = 0; i < kMessages; ++i) {
      const uint32_t other = (i * 77 + 5) % kMessages;
      pairs[self * kMessages + i].first =
          &transfers.Send(self, 1 - self, TagOf(3, other), Pattern(500 + other, self + other));
    }
  }
  transfers.WaitAll();
  for (const auto& [send, recv] : pairs) {
    EXPECT_OK(recv->outcome->status());
    EXPECT_TRUE(send->bytes == recv->bytes);
  }
}

TEST_P(TransportContract, CountsPayloadOfCompletedTransfersExactly) {
  Connect(3);
  Transfers transfers(mesh_);
  uint32_t message = 0;
  for (const size_t size : kSizes) {
    transfers.Recv(1, 0, TagOf(1, message), size);
    transfers.Recv(2, 0, TagOf(1, message), size);
    transfers.Send(0, 1, TagOf(1, message), Pattern(size, 1));
    transfers.Send(0, 2, TagOf(1, message), Pattern(size, 2));
    ++message;
  }
  Operation& never = transfers.Recv(2, 1, TagOf(9, 9), 5);  // has no send, and is not counted
  transfers.Recv(0, 1, TagOf(2, 0), 31);
  transfers.Send(1, 0, TagOf(2, 0), Pattern(31, 3));
  transfers.WaitAll(&never);
  int64_t total = 0;
  for (const size_t size : kSizes) total += size;
  auto counters = std::make_shared<std::vector<Transport::Counters>>(3);
  for (int rank = 0; rank < 3; ++rank) {
    transfers.OnLoop(rank, [counters, rank](Transport& t) { (*counters)[rank] = t.counters(); });
    transfers.Settle(rank);
  }
  EXPECT_EQ((*counters)[0].sent_bytes, 2 * total);
  EXPECT_EQ((*counters)[0].received_bytes, 31);
  EXPECT_EQ((*counters)[1].sent_bytes, 31);
  EXPECT_EQ((*counters)[1].received_bytes, total);
  EXPECT_EQ((*counters)[2].sent_bytes, 0);
  EXPECT_EQ((*counters)[2].received_bytes, total);
  transfers.OnLoop(2, [](Transport& t) { t.Abort(absl::CancelledError("the test ends")); });
  transfers.WaitAll();
}

TEST_P(TransportContract, OtherOrderIsFailedPreconditionOnBothSides) {
  Connect(2);
  Transfers transfers(mesh_);
  // Both exchange within one operation, one of them believes to be elsewhere in the sequence. One
  // receive is posted before its message, one after.
  Operation& at_1 = transfers.Recv(1, 0, TagOf(4, 0, 0x123), 64);
  transfers.Settle(1);
  transfers.Send(0, 1, TagOf(4, 0, 0x124), Pattern(64, 0));
  transfers.Send(1, 0, TagOf(4, 1, 0x123), Pattern(64, 1));
  ASSERT_TRUE(mesh_->WaitUntil([&] { return at_1.outcome->ended(); }, kLimit));
  Operation& at_0 = transfers.Recv(0, 1, TagOf(4, 1, 0x124), 64);
  transfers.WaitAll();
  EXPECT_THAT(at_1.outcome->status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("peer 0")));
  EXPECT_THAT(at_0.outcome->status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("peer 1")));
}

TEST_P(TransportContract, OtherSizeIsDataLoss) {
  Connect(2);
  Transfers transfers(mesh_);
  Operation& longer = transfers.Recv(1, 0, TagOf(4, 0), 65);
  Operation& shorter = transfers.Recv(1, 0, TagOf(4, 1), 63);
  transfers.Send(0, 1, TagOf(4, 0), Pattern(64, 0));
  transfers.Send(0, 1, TagOf(4, 1), Pattern(64, 1));
  transfers.WaitAll();
  EXPECT_THAT(longer.outcome->status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("peer 0"), HasSubstr("64"), HasSubstr("65"))));
  EXPECT_THAT(shorter.outcome->status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("peer 0"), HasSubstr("64"), HasSubstr("63"))));
}

TEST_P(TransportContract, AbortEndsPendingAndLaterOperationsWithTheFirstReason) {
  Connect(3);
  Transfers transfers(mesh_);
  std::vector<Operation*> failed;
  for (uint32_t message = 0; message < 20; ++message) {
    failed.push_back(&transfers.Recv(0, 1 + message % 2, TagOf(1, message), 100));
  }
  transfers.OnLoop(0, [](Transport& t) {
    t.Abort(absl::AbortedError("first reason"));
    t.Abort(absl::InternalError("second reason"));
  });
  transfers.Settle(0);
  failed.push_back(&transfers.Recv(0, 1, TagOf(2, 0), 100));
  failed.push_back(&transfers.Send(0, 2, TagOf(2, 0), Pattern(100, 1)));
  transfers.WaitAll();
  for (const Operation* operation : failed) {
    EXPECT_THAT(operation->outcome->status(),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("first reason")));
  }
}

TEST_P(TransportContract, AbortGivesLentSendsBack) {
  Connect(2);
  Transfers transfers(mesh_);
  // Nobody receives: some of these may have been taken by buffers on the way, the others are
  // pending. All come back.
  for (uint32_t message = 0; message < 8; ++message) {
    transfers.Send(0, 1, TagOf(1, message), Pattern(3 << 20, message));
  }
  transfers.OnLoop(0, [](Transport& t) { t.Abort(absl::AbortedError("enough")); });
  transfers.Settle(0);
  transfers.WaitAll();
}

TEST_P(TransportContract, LostPeerFailsOnlyWhatIsWithIt) {
  Connect(3);
  Transfers transfers(mesh_);
  Operation& warm = transfers.Recv(0, 2, TagOf(0, 0), 10);
  transfers.Send(2, 0, TagOf(0, 0), Pattern(10, 1));
  ASSERT_TRUE(mesh_->WaitUntil([&] { return warm.outcome->ended(); }, kLimit));

  Operation& from_2 = transfers.Recv(0, 2, TagOf(1, 0), 100);
  Operation& from_1 = transfers.Recv(0, 1, TagOf(1, 0), 100);
  transfers.Settle(0);
  mesh_->Vanish(Rank{2});
  ASSERT_TRUE(mesh_->WaitUntil([&] { return from_2.outcome->ended(); }, kLimit));
  EXPECT_THAT(from_2.outcome->status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("peer 2")));
  EXPECT_FALSE(from_1.outcome->ended());

  Operation& later_recv = transfers.Recv(0, 2, TagOf(2, 0), 100);
  Operation& later_send = transfers.Send(0, 2, TagOf(2, 0), Pattern(100, 2));
  Operation& send = transfers.Send(1, 0, TagOf(1, 0), Pattern(100, 3));
  ASSERT_TRUE(mesh_->WaitUntil(
      [&] {
        return later_recv.outcome->ended() && later_send.outcome->ended() &&
               from_1.outcome->ended() && send.outcome->ended();
      },
      kLimit));
  EXPECT_THAT(later_recv.outcome->status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("peer 2")));
  EXPECT_THAT(later_send.outcome->status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("peer 2")));
  EXPECT_OK(from_1.outcome->status());
  EXPECT_TRUE(from_1.bytes == send.bytes);
}

TEST_P(TransportContract, CloseWaitsForWhatIsPending) {
  Connect(2);
  Transfers transfers(mesh_);
  Operation& recv = transfers.Recv(1, 0, TagOf(1, 0), 1 << 20);
  auto closed_0 = std::make_shared<Outcome>();
  auto closed_1 = std::make_shared<Outcome>();
  Loop* loop_1 = &mesh_->loop(Rank{1});
  transfers.OnLoop(1, [closed_1, loop_1, outcome = recv.outcome](Transport& t) {
    auto in_call = std::make_shared<bool>(true);
    t.Close([closed_1, loop_1, outcome, in_call](absl::Status status) {
      EXPECT_TRUE(outcome->ended()) << "closed before the pending receive ended";
      closed_1->Set(std::move(status), loop_1->InLoop(), *in_call);
    });
    *in_call = false;
  });
  transfers.Settle(1);
  EXPECT_FALSE(closed_1->ended());
  Operation& send = transfers.Send(0, 1, TagOf(1, 0), Pattern(1 << 20, 1));
  transfers.OnLoop(0, [closed_0](Transport& t) {
    t.Close([closed_0](absl::Status status) { closed_0->Set(std::move(status), true, false); });
  });
  ASSERT_TRUE(mesh_->WaitUntil([&] { return closed_0->ended() && closed_1->ended(); }, kLimit));
  transfers.WaitAll();
  EXPECT_OK(closed_0->status());
  EXPECT_OK(closed_1->status());
  EXPECT_TRUE(closed_1->proper());
  EXPECT_TRUE(send.bytes == recv.bytes);
}

TEST_P(TransportContract, EndsWithOperationsPending) {
  Connect(2);
  Transfers transfers(mesh_);
  transfers.Recv(0, 1, TagOf(1, 0), 100);
  transfers.Send(1, 0, TagOf(1, 1), Pattern(3 << 20, 1));
  transfers.Settle(0);
  transfers.Settle(1);
}

}  // namespace
}  // namespace strata
