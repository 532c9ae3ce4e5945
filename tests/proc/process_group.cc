#include "tests/proc/process_group.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/status.h"

namespace strata {

ProcessGroup::~ProcessGroup() {
  for (Child& child : children_) {
    if (!child.state.ended) {
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
    if (child.output_fd >= 0) close(child.output_fd);
  }
}

int ProcessGroup::Spawn(const std::vector<std::string>& command, const Environment& environment) {
  Environment merged = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    merged.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<std::string> assignments;
  for (const auto& [name, value] : merged) assignments.push_back(absl::StrCat(name, "=", value));
  std::vector<char*> argv, envp;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  for (const std::string& text : assignments) envp.push_back(const_cast<char*>(text.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  int pipe_fds[2];
  STRATA_CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDERR_FILENO);
  Child child;
  STRATA_CHECK(posix_spawn(&child.pid, argv[0], &actions, nullptr, argv.data(), envp.data()) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  child.output_fd = pipe_fds[0];
  fcntl(child.output_fd, F_SETFL, O_NONBLOCK);
  children_.push_back(std::move(child));
  return static_cast<int>(children_.size()) - 1;
}

void ProcessGroup::Signal(int child, int signal) { kill(children_[child].pid, signal); }

void ProcessGroup::Poll(absl::Duration limit) {
  std::vector<pollfd> entries;
  for (const Child& child : children_) {
    entries.push_back({child.state.ended ? -1 : child.output_fd, POLLIN, 0});
  }
  poll(entries.data(), entries.size(),
       static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(limit))));
  for (Child& child : children_) {
    if (child.state.ended) continue;
    int status = 0;
    const bool ended = waitpid(child.pid, &status, WNOHANG) == child.pid;
    char buffer[4096];
    for (ssize_t got; (got = read(child.output_fd, buffer, sizeof(buffer))) > 0;) {
      child.state.output.append(buffer, static_cast<size_t>(got));
    }
    if (!ended) continue;
    child.state.ended = true;
    if (WIFEXITED(status)) child.state.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) child.state.signal = WTERMSIG(status);
  }
}

bool ProcessGroup::WaitForOutput(const std::vector<int>& children, const std::string& text,
                                 absl::Duration limit) {
  const absl::Time end = absl::Now() + limit;
  while (true) {
    Poll(absl::Milliseconds(20));
    if (std::all_of(children.begin(), children.end(), [&](int child) {
          return children_[child].state.output.find(text) != std::string::npos;
        })) {
      return true;
    }
    if (absl::Now() > end) return false;
  }
}

bool ProcessGroup::WaitForEnd(const std::vector<int>& children, absl::Duration limit) {
  const absl::Time end = absl::Now() + limit;
  while (true) {
    Poll(absl::Milliseconds(20));
    if (std::all_of(children.begin(), children.end(),
                    [&](int child) { return children_[child].state.ended; })) {
      return true;
    }
    if (absl::Now() > end) return false;
  }
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  STRATA_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  STRATA_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace strata
