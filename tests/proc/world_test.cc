// Worlds of real processes on this host; STRATA_NODE lets them believe in several nodes.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/proc/process_group.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kLimit = absl::Seconds(60);

// A world of STRATA_TEST_WORLD_PROCESS, ranks dealt out to nodes as `nodes` says: {0, 0, 1} puts
// launcher ranks 0 and 1 on one node.
class WorldTest : public testing::Test {
 protected:
  void Start(const std::vector<int>& nodes, const std::vector<std::string>& arguments,
             const std::map<int, std::vector<std::string>>& more = {}) {
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      std::vector<std::string> own = arguments;
      if (const auto found = more.find(rank); found != more.end()) {
        own.insert(own.end(), found->second.begin(), found->second.end());
      }
      StartRank(static_cast<int>(rank), static_cast<int>(nodes.size()), nodes[rank], own);
    }
  }

  void StartRank(int rank, int size, int node, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), STRATA_TEST_WORLD_PROCESS);
    processes_->Spawn(arguments, {{"STRATA_RANK", absl::StrCat(rank)},
                                  {"STRATA_WORLD_SIZE", absl::StrCat(size)},
                                  {"STRATA_RENDEZVOUS", absl::StrCat("127.0.0.1:", port_)},
                                  {"STRATA_TOKEN", "secret"},
                                  {"STRATA_INTERFACE", "lo"},
                                  {"STRATA_NODE", absl::StrCat("node", node)}});
    children_.push_back(static_cast<int>(children_.size()));
  }

  // For another world in the same test.
  void Reset() {
    processes_ = std::make_unique<ProcessGroup>();
    children_.clear();
    port_ = FreePort();
  }

  std::vector<int> Others(int child) const {
    std::vector<int> others = children_;
    others.erase(others.begin() + child);
    return others;
  }

  void ExpectEnd(int child, int exit_code, const testing::Matcher<std::string>& output) {
    const ProcessEnd& state = processes_->state(child);
    EXPECT_TRUE(state.ended) << "process " << child << ": " << state.output;
    EXPECT_EQ(state.exit_code, exit_code) << "process " << child << ": " << state.output;
    EXPECT_THAT(state.output, output) << "process " << child;
  }

  std::unique_ptr<ProcessGroup> processes_ = std::make_unique<ProcessGroup>();
  std::vector<int> children_;
  int port_ = FreePort();
};

struct Shape {
  std::vector<int> nodes;
  std::string sizes;
};

std::string NameOf(const Shape& shape) { return "nodes" + absl::StrJoin(shape.nodes, ""); }

class WorldShapeTest : public WorldTest, public testing::WithParamInterface<Shape> {};

TEST_P(WorldShapeTest, GathersReducesAndLeaves) {
  Start(GetParam().nodes, {"5"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) {
    ExpectEnd(child, 0,
              AllOf(HasSubstr(absl::StrCat(" of ", children_.size(), " nodes ", GetParam().sizes)),
                    HasSubstr("left\n")));
  }
}

// A rank that is killed ends the others, who all name it, well within ten seconds.
TEST_P(WorldShapeTest, KilledRankIsNamedByAllOthers) {
  const int size = static_cast<int>(GetParam().nodes.size());
  for (int victim = 0; victim < size; ++victim) {
    Reset();
    Start(GetParam().nodes, {"0"});
    ASSERT_TRUE(processes_->WaitForOutput(children_, "joined", kLimit));
    absl::SleepFor(absl::Milliseconds(37 * victim));  // at different points of a step
    processes_->Signal(victim, SIGKILL);
    ASSERT_TRUE(processes_->WaitForEnd(Others(victim), absl::Seconds(10))) << "victim " << victim;
    const std::string output = processes_->state(victim).output;
    const size_t joined = output.find("joined ") + 7;
    const std::string position = output.substr(joined, output.find(' ', joined) - joined);
    for (const int child : Others(victim)) {
      ExpectEnd(child, 3,
                AllOf(HasSubstr(absl::StrCat("rank ", position, " (host ")),
                      HasSubstr("is lost: connection closed")));
    }
  }
}

const Shape kShapes[] = {
    {{0, 0}, "2"}, {{0, 1}, "1+1"}, {{0, 0, 1}, "2+1"}, {{0, 1, 1, 0, 2}, "2+2+1"}};

INSTANTIATE_TEST_SUITE_P(Shapes, WorldShapeTest, testing::ValuesIn(kShapes),
                         [](const auto& info) { return NameOf(info.param); });

TEST_F(WorldTest, OneRankNeedsNobody) {
  Start({0}, {"5"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  ExpectEnd(0, 0, AllOf(HasSubstr("joined 0 of 1 nodes 1"), HasSubstr("left\n")));
}

TEST_F(WorldTest, StoppedRankIsNamedByAllOthers) {
  for (const int victim : {0, 2}) {
    Reset();
    Start({0, 0, 1}, {"0", "heartbeat=1"});
    ASSERT_TRUE(processes_->WaitForOutput(children_, "joined", kLimit));
    processes_->Signal(victim, SIGSTOP);
    ASSERT_TRUE(processes_->WaitForEnd(Others(victim), absl::Seconds(10)));
    for (const int child : Others(victim)) {
      ExpectEnd(child, 3,
                AllOf(HasSubstr(absl::StrCat("rank ", victim, " (host ")),
                      HasSubstr("is lost: no heartbeat for 1s")));
    }
  }
}

TEST_F(WorldTest, FailingRankTellsTheOthersWhy) {
  for (const int victim : {0, 1}) {
    Reset();
    Start({0, 0, 1}, {"0"}, {{victim, {"fail_at=3"}}});
    ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
    ExpectEnd(victim, 3, HasSubstr("error: RESOURCE_EXHAUSTED: told to fail"));
    for (const int child : Others(victim)) {
      ExpectEnd(child, 3,
                AllOf(HasSubstr(absl::StrCat("rank ", victim, " (host ")),
                      HasSubstr("failed: told to fail")));
    }
  }
}

// The early one stays until the late ones have finished, without an alarm.
TEST_F(WorldTest, RanksThatStartLateAreWaitedFor) {
  StartRank(1, 3, 0, {"2"});
  absl::SleepFor(absl::Milliseconds(300));
  StartRank(0, 3, 0, {"2"});
  absl::SleepFor(absl::Milliseconds(300));
  StartRank(2, 3, 1, {"2"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) ExpectEnd(child, 0, HasSubstr("left"));
}

TEST_F(WorldTest, WrongTokenIsRefusedAndTheOthersGoOn) {
  StartRank(0, 2, 0, {"2"});
  StartRank(1, 2, 0, {"2", "token=another"});
  ASSERT_TRUE(processes_->WaitForEnd({1}, kLimit));
  ExpectEnd(1, 2,
            AllOf(HasSubstr("launcher rank 0 at 127.0.0.1"), HasSubstr("refused launcher rank 1"),
                  HasSubstr("token")));
  StartRank(1, 2, 0, {"2"});
  ASSERT_TRUE(processes_->WaitForEnd({0, 2}, kLimit));
  ExpectEnd(0, 0, AllOf(HasSubstr("refused launcher rank 1 at 127.0.0.1:"), HasSubstr("token")));
  ExpectEnd(2, 0, HasSubstr("left"));
}

TEST_F(WorldTest, AbsentRanksAreNamed) {
  StartRank(0, 4, 0, {"1", "timeout=1"});
  StartRank(2, 4, 0, {"1", "timeout=1"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) {
    ExpectEnd(
        child, 2,
        AllOf(HasSubstr("DEADLINE_EXCEEDED"), HasSubstr("launcher ranks 1, 3 have not come")));
  }
}

TEST_F(WorldTest, AbsentLauncherRankZeroIsNamed) {
  StartRank(1, 2, 0, {"1", "timeout=0.5"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  ExpectEnd(0, 2,
            AllOf(HasSubstr("launcher rank 1 did not reach launcher rank 0 at 127.0.0.1:"),
                  HasSubstr("refused")));
}

TEST_F(WorldTest, UsedPortIsOneClearError) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  StartRank(0, 2, 0, {"1"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  ExpectEnd(0, 2,
            AllOf(HasSubstr(absl::StrCat("port ", port_, " is used by another process")),
                  HasSubstr("MASTER_PORT")));
  close(fd);
}

TEST_F(WorldTest, DifferentFingerprintsAreNamedToAll) {
  const std::string one = R"(fingerprint={"threads":"1","blas":"x"})";
  const std::string two = R"(fingerprint={"threads":"2","blas":"x"})";
  Start({0, 0, 0}, {"1"}, {{0, {one}}, {1, {two}}, {2, {one}}});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) {
    ExpectEnd(child, 2,
              AllOf(HasSubstr(R"(threads is "1" on launcher rank 0 )"),
                    HasSubstr(R"("2" on launcher rank 1 )"), Not(HasSubstr("blas"))));
  }
}

TEST_F(WorldTest, DifferentWorldSizesAreNamedToAll) {
  StartRank(0, 2, 0, {"1"});
  StartRank(1, 3, 0, {"1"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) {
    ExpectEnd(child, 2, AllOf(HasSubstr("a world of 3 ranks"), HasSubstr("in one of 2")));
  }
}

TEST_F(WorldTest, TwoProcessesWithOneRankAreNamedToAll) {
  StartRank(0, 3, 0, {"1"});
  StartRank(1, 3, 0, {"1"});
  StartRank(1, 3, 0, {"1"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) {
    ExpectEnd(child, 2, HasSubstr("two processes say that they are launcher rank 1"));
  }
}

TEST_F(WorldTest, UnknownInterfaceEndsAllWithItsName) {
  Start({0, 1}, {"1"}, {{1, {"interface=nosuch0"}}});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) ExpectEnd(child, 2, HasSubstr("nosuch0"));
}

TEST_F(WorldTest, OneNodeNeedsNoInterface) {
  Start({0, 0}, {"1", "interface=nosuch0"});
  ASSERT_TRUE(processes_->WaitForEnd(children_, kLimit));
  for (const int child : children_) ExpectEnd(child, 0, HasSubstr("left"));
}

}  // namespace
}  // namespace strata
