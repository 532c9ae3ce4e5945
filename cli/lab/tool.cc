#include "cli/lab/tool.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata {
namespace {

constexpr int kCannotStart = 127;

// Files in memory rather than pipes: neither side can block on the other.
int MemoryFile(const std::string& content) {
  const int fd = memfd_create("strata-lab", MFD_CLOEXEC);
  if (fd < 0) return fd;
  if (write(fd, content.data(), content.size()) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
    close(fd);
    return -1;
  }
  return fd;
}

std::string Content(int fd) {
  std::string text(4096, '\0');
  const ssize_t bytes = pread(fd, text.data(), text.size(), 0);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return std::string(absl::StripAsciiWhitespace(text));
}

[[noreturn]] void Become(const std::vector<std::string>& command, int in, int out) {
  dup2(in, 0);
  dup2(out, 1);
  dup2(out, 2);
  const char* path = std::getenv("PATH");
  setenv("PATH", absl::StrCat(path != nullptr ? path : "/usr/bin:/bin", ":/usr/sbin:/sbin").c_str(),
         1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(strdup(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kCannotStart);
}

}  // namespace

absl::Status RunTool(const std::vector<std::string>& command, const std::string& input) {
  const int in = MemoryFile(input);
  const int out = MemoryFile("");
  if (in < 0 || out < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  const pid_t pid = fork();
  if (pid == 0) Become(command, in, out);
  int wait_status = 0;
  const bool waited = pid > 0 && waitpid(pid, &wait_status, 0) == pid;
  const std::string said = Content(out);
  close(in);
  close(out);
  if (!waited) return absl::ErrnoToStatus(errno, "start " + command[0]);
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return absl::OkStatus();
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kCannotStart) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot start `", command[0], "`; install the package iproute2"));
  }
  const std::string message = absl::StrCat("`", command[0], "` failed: ", said);
  if (absl::StrContains(said, "Operation not permitted")) {
    return absl::PermissionDeniedError(message);
  }
  return absl::InternalError(message);
}

}  // namespace strata
