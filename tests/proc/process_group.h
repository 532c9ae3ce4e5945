#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace strata {

// How a child process ended, or not.
struct ProcessEnd {
  bool ended = false;
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string output;  // stdout and stderr, so far
};

// Child processes of one test, in order. The destructor kills those that are left.
class ProcessGroup {
 public:
  using Environment = std::map<std::string, std::string>;

  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();

  // `environment` is added to this process's. Returns the child's index.
  int Spawn(const std::vector<std::string>& command, const Environment& environment);

  void Signal(int child, int signal);

  // Until the output of every child in `children` contains `text`; false after `limit`.
  bool WaitForOutput(const std::vector<int>& children, const std::string& text,
                     absl::Duration limit);

  // Until every child in `children` has ended; false after `limit`.
  bool WaitForEnd(const std::vector<int>& children, absl::Duration limit);

  const ProcessEnd& state(int child) const { return children_[child].state; }

 private:
  struct Child {
    pid_t pid = -1;
    int output_fd = -1;
    ProcessEnd state;
  };

  // Reads what is there and reaps who has ended; waits for news at most `limit`.
  void Poll(absl::Duration limit);

  std::vector<Child> children_;
};

// A port of the loopback interface that was free a moment ago.
int FreePort();

}  // namespace strata
