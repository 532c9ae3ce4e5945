#include "cli/lab/lab.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/exit_codes.h"
#include "cli/lab/counters_file.h"
#include "cli/lab/network.h"
#include "cli/lab/node_namespace.h"
#include "cli/output_file.h"
#include "kernels/rate.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr char kName[] = "lab run";
constexpr int kMasterPort = 29400;  // free: the network is the lab's own

std::string CongestionControl() {
  std::string name;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control"), name);
  return name.empty() ? "unknown" : name;
}

absl::Status NeedsPrivilege(absl::string_view what) {
  return absl::PermissionDeniedError(
      absl::StrCat("an emulated cluster needs root with CAP_SYS_ADMIN and CAP_NET_ADMIN (", what,
                   "); run as root, or with --no-network for plain processes on loopback"));
}

// What runs as process 1 of the lab's PID namespace.
class LabInit {
 public:
  LabInit(const LabOptions& options, const LinkOptions& link, std::optional<OutputFile> counters,
          std::vector<std::string> program)
      : options_(options),
        link_(link),
        counters_(std::move(counters)),
        program_(std::move(program)),
        folder_(std::filesystem::current_path()) {}

  absl::StatusOr<int> Run();

 private:
  absl::Status MakeNodes();
  absl::Status WriteCounters(const std::vector<LinkCounters>& before, absl::Time start);
  std::vector<Launch> Launches() const;

  const LabOptions& options_;
  const LinkOptions& link_;
  std::optional<OutputFile> counters_;
  const std::vector<std::string> program_;
  const std::string folder_;  // where ranks run; entering a mount namespace loses it
  std::vector<NodeNamespace> nodes_;
};

absl::Status LabInit::MakeNodes() {
  STRATA_ASSIGN_OR_RETURN(const std::string root, PrepareLabMounts());
  STRATA_RETURN_IF_ERROR(MakeBridge());
  STRATA_ASSIGN_OR_RETURN(const NodeNamespace lab, NodeNamespace::Current(root));
  for (int node = 0; node < options_.nodes; ++node) {
    STRATA_ASSIGN_OR_RETURN(NodeNamespace made,
                            NodeNamespace::Make(node, options_.nodes, link_, lab));
    nodes_.push_back(made);
  }
  return PlugIn(options_.nodes, link_);
}

std::vector<Launch> LabInit::Launches() const {
  const std::vector<int> ranks_of_node(options_.nodes, options_.ranks_per_node);
  const JobAddress address{NodeAddress(0), kMasterPort, RandomToken()};
  std::vector<Launch> launches;
  for (const RankPlace& place : PlaceRanks(ranks_of_node, options_.placement)) {
    Launch launch;
    launch.rank = place.rank;
    launch.where = NodeName(place.node);
    launch.program = program_;
    launch.environment = RankEnvironment(place, ranks_of_node, address);
    launch.environment.push_back(absl::StrCat("STRATA_INTERFACE=", kNodeInterface));
    launch.enter = [node = nodes_[place.node], folder = folder_]() -> absl::Status {
      STRATA_RETURN_IF_ERROR(node.Enter());
      if (chdir(folder.c_str()) != 0) return absl::ErrnoToStatus(errno, folder);
      return absl::OkStatus();
    };
    launches.push_back(std::move(launch));
  }
  return launches;
}

absl::StatusOr<int> LabInit::Run() {
  if (const absl::Status made = MakeNodes(); absl::IsPermissionDenied(made)) {
    return NeedsPrivilege(made.message());
  } else if (!made.ok()) {
    return Annotate(made, "cannot make the nodes");
  }
  const std::vector<Launch> launches = Launches();
  std::fprintf(stderr, "strata lab: %d nodes x %d ranks, %s, mtu %d, congestion control %s\n",
               options_.nodes, options_.ranks_per_node, options_.link.c_str(), link_.mtu,
               CongestionControl().c_str());
  STRATA_ASSIGN_OR_RETURN(const std::vector<LinkCounters> before, ReadCounters(options_.nodes));
  const absl::Time start = absl::Now();
  STRATA_ASSIGN_OR_RETURN(const int exit_code,
                          Supervise(launches, {kName, options_.label, options_.grace}));
  const absl::Status written = WriteCounters(before, start);
  if (written.ok()) return exit_code;
  const int code = ReportError(kName, written);
  return exit_code != 0 ? exit_code : code;
}

absl::Status LabInit::WriteCounters(const std::vector<LinkCounters>& before, absl::Time start) {
  if (!counters_) return absl::OkStatus();
  STRATA_ASSIGN_OR_RETURN(const std::vector<LinkCounters> after, ReadCounters(options_.nodes));
  return counters_->Write(
      CountersJson({link_.bits_per_second, link_.mtu, absl::Now() - start, before, after}));
}

// Waits for the lab's process 1 and passes signals on. Blocked signals stay blocked.
int WaitForLab(pid_t init) {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&taken, signal);
  for (;;) {
    int wait_status = 0;
    if (waitpid(init, &wait_status, WNOHANG) == init) {
      if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
      std::fprintf(stderr, "strata %s: the lab was ended by signal %d\n", kName,
                   WTERMSIG(wait_status));
      return 128 + WTERMSIG(wait_status);
    }
    const int signal = sigwaitinfo(&taken, nullptr);
    if (signal > 0 && signal != SIGCHLD) kill(init, signal);
  }
}

// The calling process becomes the lab's process 1; `alive` reports when the lab's starter is gone.
[[noreturn]] void BecomeInit(LabInit init, int alive) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd starter = {alive, POLLIN, 0};
  if (poll(&starter, 1, 0) != 0) _exit(kExitFailure);  // it ended before the line above
  // Ctrl-C of a terminal reaches the starter alone, which passes it on.
  setsid();
  const absl::StatusOr<int> result = init.Run();
  _exit(result.ok() ? *result : ReportError(kName, result.status()));
}

}  // namespace

absl::StatusOr<int> RunLab(const LabOptions& options, const std::vector<std::string>& program) {
  STRATA_RETURN_IF_ERROR(CheckLab(options, program));
  LinkOptions link;
  STRATA_ASSIGN_OR_RETURN(link.bits_per_second, ParseRate(options.link));
  link.mtu = options.mtu;
  std::optional<OutputFile> counters;
  if (!options.counters.empty()) {
    STRATA_ASSIGN_OR_RETURN(counters, OutputFile::Create("--counters", options.counters));
  }

  int alive[2];
  if (pipe2(alive, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  // Process 1 of a PID namespace: when it ends, and it ends with us, the kernel ends every process
  // in it and frees the namespaces and interfaces they held.
  const long init = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | SIGCHLD, nullptr,
                            nullptr, nullptr, nullptr);
  if (init < 0) {
    return errno == EPERM ? NeedsPrivilege("clone") : absl::ErrnoToStatus(errno, "clone");
  }
  if (init == 0) {
    close(alive[1]);
    BecomeInit(LabInit(options, link, std::move(counters), program), alive[0]);
  }
  close(alive[0]);
  return WaitForLab(static_cast<pid_t>(init));
}

}  // namespace strata
