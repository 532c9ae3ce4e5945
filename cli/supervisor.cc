#include "cli/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/exit_codes.h"
#include "cli/line_merger.h"
#include "cli/line_relay.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr absl::Duration kTermToKill = absl::Seconds(3);
constexpr absl::Duration kSignalToKill = absl::Seconds(5);
constexpr absl::Duration kCloseToKill = absl::Seconds(2);

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  return Pipe{ends[0], ends[1]};
}

// The new process's side of a launch; does not return.
[[noreturn]] void Become(const Launch& launch, int in, int out, int err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A session of its own: signals reach all that the program starts, and the terminal's Ctrl-C
  // reaches it through us alone, once.
  setsid();
  if (in >= 0) dup2(in, 0);
  if (out >= 0) dup2(out, 1);
  if (err >= 0) dup2(err, 2);
  if (launch.enter) {
    if (const absl::Status status = launch.enter(); !status.ok()) {
      std::fprintf(stderr, "strata: rank %d: %s\n", launch.rank,
                   std::string(status.message()).c_str());
      _exit(kExitFailure);
    }
  }
  for (const std::string& variable : launch.environment) putenv(strdup(variable.c_str()));
  std::vector<char*> arguments;
  for (const std::string& word : launch.program) arguments.push_back(strdup(word.c_str()));
  arguments.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "strata: rank %d: cannot start %s: %s\n", launch.rank, arguments[0],
               strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

class Supervisor {
 public:
  Supervisor(const std::vector<Launch>& launches, const SuperviseOptions& options)
      : launches_(launches),
        options_(options),
        errors_(STDERR_FILENO, static_cast<int>(launches.size()), options.label == Label::kAll) {}
  ~Supervisor();

  absl::StatusOr<int> Run();

 private:
  struct Process {
    pid_t pid = 0;  // 0 when it has ended
    int input = -1;
  };
  enum class Phase { kRunning, kGrace, kTerminating, kKilled };

  absl::Status TakeSignals();
  absl::Status Start(const Launch& launch);
  bool IsLabelled(const Launch& launch) const {
    return options_.label == Label::kAll || (options_.label == Label::kOthers && launch.rank != 0);
  }
  // Rank 0 keeps a terminal, for its progress bar.
  bool IsMerged(const Launch& launch) const {
    return IsLabelled(launch) || (options_.label == Label::kOthers && isatty(STDERR_FILENO) == 0);
  }
  void Relay(int pipe, LineSink sink) {
    relays_.push_back(std::make_unique<LineRelay>(pipe, std::move(sink)));
  }
  void PumpRelays();
  // Says something of its own, after what ranks have written by now.
  void Say(const std::string& line);
  void WaitForEvents();
  void OnSignals();
  void OnSignal(int signal);
  void Reap();
  void OnExit(size_t index, int wait_status);
  void OnDeadline();
  void SignalAll(int signal);
  bool AnyAlive() const {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const Process& process) { return process.pid != 0; });
  }

  const std::vector<Launch>& launches_;
  const SuperviseOptions& options_;
  std::vector<Process> processes_;  // in the order of launches_
  std::vector<std::unique_ptr<LineRelay>> relays_;
  LineMerger errors_;
  sigset_t old_mask_;
  int signals_ = -1;
  Phase phase_ = Phase::kRunning;
  absl::Time deadline_ = absl::InfiniteFuture();
  int exit_code_ = 0;
  absl::Status output_;  // why lines of ranks are lost
};

Supervisor::~Supervisor() {
  for (const Process& process : processes_) {
    if (process.input >= 0) close(process.input);
  }
  if (signals_ >= 0) {
    close(signals_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
}

absl::StatusOr<int> Supervisor::Run() {
  STRATA_RETURN_IF_ERROR(TakeSignals());
  for (const Launch& launch : launches_) {
    if (const absl::Status status = Start(launch); !status.ok()) {
      SignalAll(SIGKILL);
      return Annotate(status, absl::StrCat("rank ", launch.rank));
    }
  }
  while (AnyAlive()) WaitForEvents();
  // Not until the end of the input: a process that a rank left behind may hold the pipe open.
  for (const auto& relay : relays_) {
    if (relay->Pump()) relay->Finish();
  }
  errors_.WriteDue(absl::InfiniteFuture());
  if (exit_code_ == 0 && !output_.ok()) return Annotate(output_, "standard output");
  return exit_code_;
}

absl::Status Supervisor::TakeSignals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    sigaddset(&taken, signal);
  }
  sigprocmask(SIG_BLOCK, &taken, &old_mask_);
  signals_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return absl::ErrnoToStatus(errno, "signalfd");
  return absl::OkStatus();
}

absl::Status Supervisor::Start(const Launch& launch) {
  Pipe in, out, err;
  if (launch.remote_input) {
    STRATA_ASSIGN_OR_RETURN(in, MakePipe());
  } else if (launch.rank != 0) {
    in.read_end = open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
  if (IsLabelled(launch)) {
    STRATA_ASSIGN_OR_RETURN(out, MakePipe());
  }
  if (IsMerged(launch)) {
    STRATA_ASSIGN_OR_RETURN(err, MakePipe());
  }
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) Become(launch, in.read_end, out.write_end, err.write_end);
  for (const int fd : {in.read_end, out.write_end, err.write_end}) {
    if (fd >= 0) close(fd);
  }
  processes_.push_back({pid, in.write_end});
  if (IsLabelled(launch)) {
    Relay(out.read_end,
          LabelledLines(STDOUT_FILENO, absl::StrCat("[", launch.rank, "] "), output_));
  }
  if (IsMerged(launch)) {
    Relay(err.read_end, [this, rank = launch.rank](const std::string& line) {
      errors_.Add(rank, line, absl::Now());
    });
  }
  if (launch.remote_input) {
    const std::string& text = *launch.remote_input;
    if (write(in.write_end, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return absl::ErrnoToStatus(errno, "write to standard input");
    }
  }
  return absl::OkStatus();
}

void Supervisor::WaitForEvents() {
  std::vector<pollfd> waited = {{signals_, POLLIN, 0}};
  for (const auto& relay : relays_) waited.push_back({relay->pipe(), POLLIN, 0});
  int timeout_milliseconds = -1;
  if (const absl::Time next = std::min(deadline_, errors_.due()); next != absl::InfiniteFuture()) {
    const int64_t left = absl::ToInt64Milliseconds(next - absl::Now()) + 1;
    timeout_milliseconds = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }
  poll(waited.data(), waited.size(), timeout_milliseconds);
  PumpRelays();
  OnSignals();
  errors_.WriteDue(absl::Now());
  if (absl::Now() >= deadline_) OnDeadline();
}

void Supervisor::PumpRelays() {
  for (auto& relay : relays_) {
    if (!relay->Pump()) relay.reset();
  }
  std::erase(relays_, nullptr);
}

void Supervisor::Say(const std::string& line) {
  PumpRelays();
  errors_.Add(LineMerger::kCommand, absl::StrCat("strata ", options_.name, ": ", line),
              absl::Now());
}

void Supervisor::OnSignals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      Reap();
    } else if (signal != SIGPIPE) {
      OnSignal(signal);
    }
  }
}

void Supervisor::OnSignal(int signal) {
  if (exit_code_ == 0) exit_code_ = 128 + signal;
  if (phase_ == Phase::kTerminating || phase_ == Phase::kKilled) {
    deadline_ = absl::Now();
    return;
  }
  SignalAll(signal);
  phase_ = Phase::kTerminating;
  deadline_ = absl::Now() + kSignalToKill;
}

void Supervisor::Reap() {
  int wait_status = 0;
  for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i].pid == pid) OnExit(i, wait_status);
    }
  }
}

void Supervisor::OnExit(size_t index, int wait_status) {
  processes_[index].pid = 0;
  const bool signalled = WIFSIGNALED(wait_status);
  const int code = signalled ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  if (code == 0 || phase_ != Phase::kRunning) return;
  exit_code_ = code;
  const Launch& launch = launches_[index];
  const std::string what = signalled ? absl::StrCat("was ended by signal ", WTERMSIG(wait_status),
                                                    " (", strsignal(WTERMSIG(wait_status)), ")")
                                     : absl::StrCat("exited with ", code);
  const std::string rest =
      AnyAlive()
          ? absl::StrCat("; the others have ", absl::FormatDuration(options_.grace), " to end")
          : "";
  Say(absl::StrCat("rank ", launch.rank, " (", launch.where, ") ", what, rest));
  phase_ = Phase::kGrace;
  deadline_ = absl::Now() + options_.grace;
}

void Supervisor::OnDeadline() {
  if (phase_ == Phase::kGrace) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i].pid == 0) continue;
      Say(absl::StrCat("ending rank ", launches_[i].rank, " (", launches_[i].where,
                       "), which did not end by itself"));
    }
    SignalAll(SIGTERM);
    phase_ = Phase::kTerminating;
    deadline_ = absl::Now() + kTermToKill;
    return;
  }
  SignalAll(SIGKILL);
  phase_ = Phase::kKilled;
  deadline_ = absl::Now() + kCloseToKill;
}

void Supervisor::SignalAll(int signal) {
  for (Process& process : processes_) {
    if (process.pid == 0) continue;
    if (process.input >= 0 && signal == SIGKILL) {
      // The end of its input makes the other host kill the program; killing what carries the input
      // first could lose that. It gets the signal itself at the next deadline.
      close(std::exchange(process.input, -1));
      continue;
    }
    if (process.input >= 0) {
      const std::string line = absl::StrCat(sigabbrev_np(signal), "\n");
      if (write(process.input, line.data(), line.size()) > 0) continue;
    }
    if (kill(-process.pid, signal) != 0) kill(process.pid, signal);  // before its setsid
  }
}

}  // namespace

absl::StatusOr<int> Supervise(const std::vector<Launch>& launches,
                              const SuperviseOptions& options) {
  return Supervisor(launches, options).Run();
}

}  // namespace strata
