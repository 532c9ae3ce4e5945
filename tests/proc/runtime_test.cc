#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/sim/reference.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

// Real processes of one job on this host; nodes are told apart by name.
class Job {
 public:
  Job(const std::vector<int>& nodes, std::vector<std::string> arguments,
      const std::vector<std::string>& environment = {}) {
    const int port = FreePort();
    int size = 0;
    for (int node : nodes) size += node;
    int rank = 0;
    for (size_t node = 0; node < nodes.size(); ++node) {
      for (int i = 0; i < nodes[node]; ++i, ++rank) {
        std::vector<std::string> variables = {absl::StrCat("RANK=", rank),
                                              absl::StrCat("WORLD_SIZE=", size),
                                              "MASTER_ADDR=127.0.0.1",
                                              absl::StrCat("MASTER_PORT=", port),
                                              absl::StrCat("STRATA_NODE=n", node),
                                              "STRATA_TOKEN=test",
                                              "STRATA_LOG=off"};
        variables.insert(variables.end(), environment.begin(), environment.end());
        Spawn(arguments, std::move(variables));
      }
    }
  }
  ~Job() {
    for (Process& process : processes_) {
      if (process.running) kill(process.pid, SIGKILL);
      if (process.running) waitpid(process.pid, nullptr, 0);
      close(process.output);
    }
  }

  void Kill(int rank, int signal) { kill(processes_[rank].pid, signal); }

  // Reads what a process says until a line begins with `text`, or it ends.
  std::string WaitFor(int rank, const std::string& text) {
    Process& process = processes_[rank];
    while (true) {
      for (size_t end; (end = process.text.find('\n', process.read)) != std::string::npos;) {
        const std::string line = process.text.substr(process.read, end - process.read);
        process.read = end + 1;
        if (line.rfind(text, 0) == 0) return line;
      }
      char buffer[4096];
      const ssize_t got = read(process.output, buffer, sizeof(buffer));
      if (got <= 0) return "";
      process.text.append(buffer, static_cast<size_t>(got));
    }
  }
  const std::string& said(int rank) { return WaitFor(rank, "\x01"), processes_[rank].text; }

  int ExitCode(int rank) {
    int status = 0;
    waitpid(processes_[rank].pid, &status, 0);
    processes_[rank].running = false;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int size() const { return static_cast<int>(processes_.size()); }

 private:
  struct Process {
    pid_t pid = 0;
    int output = -1;
    std::string text;
    size_t read = 0;
    bool running = true;
  };

  void Spawn(std::vector<std::string> arguments, std::vector<std::string> environment) {
    int pipe_ends[2];
    ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
    arguments.insert(arguments.begin(), TOY_WORKER);
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    for (std::string& variable : environment) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    Process process{.output = pipe_ends[0]};
    ASSERT_EQ(posix_spawn(&process.pid, TOY_WORKER, &actions, nullptr, argv.data(), envp.data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    processes_.push_back(std::move(process));
  }

  std::vector<Process> processes_;
};

// What can carry bytes between nodes in this build.
std::vector<std::string> Transports() {
#ifdef STRATA_HAVE_UCX
  return {"tcp", "ucx"};
#else
  return {"tcp"};
#endif
}

std::string Expected(const std::vector<int>& nodes, int accumulation, int levels, DType dtype) {
  return RunReference({.nodes = nodes,
                       .units = {{1}, {957}, {5003}, {70001}},
                       .accumulation = accumulation,
                       .levels_per_micro_step = levels,
                       .compute_dtype = dtype,
                       .gradient_dtype = dtype})
      .digest;
}

struct Case {
  std::vector<int> nodes;
  std::string layout;
  int accumulation;
  int levels;
  DType dtype;
};

constexpr char kNothingTaken[] = "after Seal: 0 large heap blocks, 0 memory files";

class RealProcesses : public testing::TestWithParam<Case> {};

TEST_P(RealProcesses, EqualTheReference) {
  const Case& c = GetParam();
  const char* const dtype = c.dtype == DType::kF32 ? "f32" : "bf16";
  Job job(c.nodes, {c.layout, absl::StrCat(c.accumulation), "3", dtype});
  for (int rank = 0; rank < job.size(); ++rank) {
    EXPECT_EQ(job.WaitFor(rank, "after Seal"), kNothingTaken)
        << "rank " << rank << ": " << job.said(rank);
    EXPECT_EQ(job.WaitFor(rank, "digest"),
              "digest " + Expected(c.nodes, c.accumulation, c.levels, c.dtype))
        << "rank " << rank << ": " << job.said(rank);
  }
  for (int rank = 0; rank < job.size(); ++rank) EXPECT_EQ(job.ExitCode(rank), 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RealProcesses,
                         testing::Values(Case{{1}, "zero3", 1, 2, DType::kF32},
                                         Case{{2, 2}, "zero3", 1, 2, DType::kF32},
                                         Case{{2, 2}, "iig", 4, 1, DType::kBf16},
                                         Case{{3}, "ddp", 1, 0, DType::kF32},
                                         Case{{2, 1}, "hsdp", 4, 1, DType::kF32},
                                         Case{{1, 1, 1}, "across", 1, 1, DType::kBf16}));

class AfterSeal : public testing::TestWithParam<std::string> {};

TEST_P(AfterSeal, NothingLargeIsAllocated) {
  for (const std::string layout : {"zero3", "iig", "ddp"}) {
    Job job({2, 1}, {layout, "4", "20", "bf16"}, {"TOY_TRANSPORT=" + GetParam()});
    for (int rank = 0; rank < job.size(); ++rank) {
      EXPECT_EQ(job.WaitFor(rank, "after Seal"), kNothingTaken)
          << layout << " rank " << rank << ": " << job.said(rank);
      EXPECT_EQ(job.ExitCode(rank), 0);
    }
  }
}

TEST(AfterSealControl, ABlockOfFourKibibytesIsCounted) {
  Job job({1}, {"zero3", "1", "2", "f32"}, {"TOY_TAKES_HEAP=1"});
  EXPECT_EQ(job.WaitFor(0, "after Seal"), "after Seal: 1 large heap blocks, 0 memory files");
  EXPECT_EQ(job.ExitCode(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Transports, AfterSeal, testing::ValuesIn(Transports()));

TEST(Faults, AKilledRankEndsTheOthersWithItsName) {
  Job job({2, 2}, {"iig", "1", "100000", "f32"});
  ASSERT_EQ(job.WaitFor(0, "step 2"), "step 2");
  const absl::Time killed = absl::Now();
  job.Kill(3, SIGKILL);
  EXPECT_EQ(job.ExitCode(3), 128 + SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.ExitCode(rank), 1);
    EXPECT_THAT(job.said(rank), testing::HasSubstr("rank 3")) << "rank " << rank;
  }
  EXPECT_LT(absl::Now() - killed, absl::Seconds(10));
}

TEST(Faults, AStoppedRankEndsTheOthersWithItsName) {
  Job job({2, 1}, {"zero3", "1", "100000", "f32"});
  ASSERT_EQ(job.WaitFor(0, "step 2"), "step 2");
  job.Kill(1, SIGSTOP);
  for (int rank : {0, 2}) {
    EXPECT_EQ(job.ExitCode(rank), 1);
    EXPECT_THAT(job.said(rank), testing::HasSubstr("rank 1")) << "rank " << rank;
  }
  job.Kill(1, SIGKILL);
  EXPECT_EQ(job.ExitCode(1), 128 + SIGKILL);
}

}  // namespace
}  // namespace strata
