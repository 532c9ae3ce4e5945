// Rendezvous and membership over real connections of one process, and what strangers do to them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/awaited.h"
#include "comm/control/membership.h"
#include "comm/control/rendezvous.h"
#include "comm/loop_calls.h"
#include "tests/support/gate.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(20);

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Listens, or only looks for a free port.
int Bind(int& port, bool listening) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  if (listening) {
    EXPECT_EQ(listen(fd, 16), 0);
    return fd;
  }
  close(fd);
  return -1;
}

RendezvousOptions Options(int rank, int size, int port) {
  RendezvousOptions options;
  options.self = {.launcher_rank = static_cast<uint32_t>(rank),
                  .size = static_cast<uint32_t>(size),
                  .host = absl::StrCat("h", rank),
                  .node = "n"};
  options.port = port;
  options.token = "secret";
  options.timeout = kLimit;
  return options;
}

// Sends `bytes` to the port, as whoever finds it may.
void Disturb(int port, const std::string& bytes, std::vector<int>& kept_open) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) break;
    poll(nullptr, 0, 10);
  }
  send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (kept_open.size() < 20) {
    kept_open.push_back(fd);
  } else {
    close(fd);
  }
}

TEST(RendezvousTest, StrangersDoNotDisturb) {
  int port = 0;
  Bind(port, false);
  AsioLoop loops[] = {AsioLoop("hub"), AsioLoop("spoke")};
  absl::StatusOr<Gathering> hub;
  std::thread meeting([&] { hub = MeetRanks(loops[0], Options(0, 2, port)); });
  std::mt19937 random(7);
  std::vector<int> kept_open;
  for (int i = 0; i < 150; ++i) {
    // Garbage, half of it with the first bytes that are expected.
    std::string bytes = i % 2 == 0 ? "strata/1" : "";
    for (uint32_t left = random() % 300; left-- > 0;) bytes.push_back(static_cast<char>(random()));
    Disturb(port, bytes, kept_open);
  }
  const absl::StatusOr<Gathering> spoke = MeetRanks(loops[1], Options(1, 2, port));
  meeting.join();
  for (const int fd : kept_open) close(fd);
  ASSERT_OK(hub);
  ASSERT_OK(spoke);
  EXPECT_EQ(hub->ranks[1].host, "h1");
  EXPECT_EQ(spoke->ranks[0].host, "h0");
  RunInLoop(loops[0], [&] { hub->connections.clear(); });
  RunInLoop(loops[1], [&] { const_cast<Gathering&>(*spoke).connections.clear(); });
}

TEST(RendezvousTest, SomethingElseOnThePortIsSaid) {
  int port = 0;
  const int listener = Bind(port, true);
  std::thread server([listener] {
    const int fd = accept(listener, nullptr, nullptr);
    const std::string garbage(200, 'g');
    send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    char sink[256];
    while (recv(fd, sink, sizeof(sink), 0) > 0) {
    }
    close(fd);
  });
  AsioLoop loop("spoke");
  EXPECT_THAT(MeetRanks(loop, Options(1, 2, port)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(absl::StrCat("127.0.0.1:", port)),
                             HasSubstr("does not speak this protocol"))));
  server.join();
  close(listener);
}

// `size` ranks of one process, each with a loop and a membership.
class MembershipTest : public testing::Test {
 protected:
  struct Member {
    AsioLoop loop{"control"};
    std::unique_ptr<ControlConnection> raw;  // of a rank without membership
    std::unique_ptr<Membership> membership;
    Awaited<absl::Status> verdict;
  };

  // `without` >= 0: that rank keeps its connection and says what the test likes.
  void Start(int size, absl::Duration heartbeat_timeout, int without = -1) {
    int port = 0;
    Bind(port, false);
    for (int rank = 0; rank < size; ++rank) members_.push_back(std::make_unique<Member>());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([=, this] {
        Member& member = *members_[rank];
        auto gathering = MeetRanks(member.loop, Options(rank, size, port));
        ASSERT_OK(gathering);
        if (rank == without) {
          member.raw = std::move(gathering->connections[0]);
          return;
        }
        Membership::Options options{.self = rank, .heartbeat_timeout = heartbeat_timeout};
        for (int r = 0; r < size; ++r) {
          options.names.push_back(absl::StrCat("rank ", r, " (host h", r, ")"));
        }
        options.on_verdict = [&member](absl::Status why) { member.verdict.Set(std::move(why)); };
        RunInLoop(member.loop, [&] {
          member.membership = Membership::Create(member.loop, std::move(gathering->connections),
                                                 std::move(options));
        });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  ~MembershipTest() override {
    for (size_t rank = 0; rank < members_.size(); ++rank) Vanish(static_cast<int>(rank));
  }

  void Vanish(int rank) {
    RunInLoop(members_[rank]->loop, [&] {
      members_[rank]->membership.reset();
      members_[rank]->raw.reset();
    });
  }

  // The result arrives at `left`, which outlives the test's members.
  void Leave(int rank, absl::Status why, Awaited<absl::Status>& left) {
    RunInLoop(members_[rank]->loop, [&] {
      members_[rank]->membership->Leave(
          std::move(why), [&left](absl::Status status) { left.Set(std::move(status)); });
    });
  }

  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(MembershipTest, ExchangesInRankOrderAgainAndAgain) {
  Start(3, kLimit);
  for (int round = 0; round < 20; ++round) {
    Awaited<std::vector<std::string>> results[3];
    for (int rank = 3; rank-- > 0;) {
      RunInLoop(members_[rank]->loop, [&] {
        members_[rank]->membership->Exchange(
            absl::StrCat(round, ".", rank),
            [&results, rank](std::vector<std::string> shares) { results[rank].Set(shares); });
      });
    }
    for (Awaited<std::vector<std::string>>& result : results) {
      EXPECT_THAT(result.Wait(), ElementsAre(absl::StrCat(round, ".0"), absl::StrCat(round, ".1"),
                                             absl::StrCat(round, ".2")));
    }
  }
}

TEST_F(MembershipTest, LeavingWaitsForTheOthers) {
  Start(3, kLimit);
  Awaited<absl::Status> left[3];
  Gate early;
  RunInLoop(members_[0]->loop, [&] {
    members_[0]->membership->Leave(absl::OkStatus(), [&](absl::Status status) {
      early.Open();
      left[0].Set(std::move(status));
    });
  });
  Leave(2, absl::OkStatus(), left[2]);
  EXPECT_FALSE(early.WaitFor(absl::Milliseconds(300)));
  Leave(1, absl::OkStatus(), left[1]);
  EXPECT_OK(left[1].Wait());
  EXPECT_OK(left[2].Wait());
  Vanish(1);
  Vanish(2);
  EXPECT_OK(left[0].Wait());
}

TEST_F(MembershipTest, AnEarlyEndAfterGoodbyeIsNoLoss) {
  Start(3, absl::Seconds(1));
  Awaited<absl::Status> left[3];
  Leave(1, absl::OkStatus(), left[1]);
  EXPECT_OK(left[1].Wait());  // after the heartbeat timeout: the others are still at work
  Vanish(1);
  // The others hear of nothing for longer than a loss would take.
  absl::Time end = members_[0]->loop.Now() + absl::Seconds(1);
  Gate passed;
  members_[0]->loop.Post([&] { members_[0]->loop.PostAt(end, [&] { passed.Open(); }); });
  ASSERT_TRUE(passed.WaitFor(kLimit));
  Leave(0, absl::OkStatus(), left[0]);
  Leave(2, absl::OkStatus(), left[2]);
  EXPECT_OK(left[2].Wait());
  EXPECT_OK(left[0].Wait());
}

TEST_F(MembershipTest, TheFirstVerdictIsEverybodys) {
  Start(4, kLimit);
  Vanish(3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(members_[rank]->verdict.Wait(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("rank 3 (host h3) is lost: connection closed")));
  }
  // Later losses and failures change nothing.
  Awaited<absl::Status> left;
  Leave(1, absl::InternalError("too late"), left);
  EXPECT_THAT(left.Wait(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 3")));
}

TEST_F(MembershipTest, AFailureIsToldToAll) {
  Start(3, kLimit);
  Awaited<absl::Status> left;
  Leave(2, absl::InternalError("out of ideas"), left);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(members_[rank]->verdict.Wait(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("rank 2 (host h2) failed: out of ideas")));
  }
  EXPECT_OK(left.Wait());
}

TEST_F(MembershipTest, WithoutTheHubEachDecidesForItself) {
  Start(3, kLimit);
  Vanish(0);
  for (int rank = 1; rank < 3; ++rank) {
    EXPECT_THAT(members_[rank]->verdict.Wait(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("rank 0 (host h0) is lost: connection closed")));
  }
}

TEST_F(MembershipTest, SilenceIsALoss) {
  Start(3, absl::Milliseconds(500), /*without=*/1);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(members_[rank]->verdict.Wait(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("rank 1 (host h1) is lost: no heartbeat for 500ms")));
  }
}

// A member that knows the token and talks nonsense is a failure with its name, whatever it says.
TEST_F(MembershipTest, NonsenseIsAFailureOfWhoTalksIt) {
  std::mt19937 random(11);
  for (int round = 0; round < 10; ++round) {
    Start(2, kLimit, /*without=*/1);
    RunInLoop(members_[1]->loop, [&] {
      std::string message(random() % 100, '\0');
      for (char& byte : message) byte = static_cast<char>(random());
      const int kinds[] = {0, 1, 2, 6, 9, 200};
      members_[1]->raw->Send(static_cast<ControlKind>(kinds[round % 6]), message);
    });
    EXPECT_THAT(members_[0]->verdict.Wait(),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 (host h1) failed: ")));
    for (int rank = 0; rank < 2; ++rank) Vanish(rank);
    members_.clear();
  }
}

}  // namespace
}  // namespace strata
