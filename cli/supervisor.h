#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace strata {

// One process to start: one rank.
struct Launch {
  int rank = 0;
  std::string where;                     // its host, for messages
  std::vector<std::string> program;      // a file or a name in PATH, and its arguments
  std::vector<std::string> environment;  // "NAME=value", added to ours
  // Runs in the new process before the program, for example to enter a namespace.
  std::function<absl::Status()> enter;
  // Set: written to its standard input, which stays open; signals follow as lines ("TERM"), for a
  // process whose program runs elsewhere.
  std::optional<std::string> remote_input;
};

// Which lines of output carry "[rank] " in front: those of all ranks but 0, of all, of none. Lines
// of standard error that several ranks write together are written once ([Note: Merged lines]),
// except with kNone, and but for rank 0's where kOthers leaves it a terminal.
enum class Label { kOthers, kAll, kNone };

struct SuperviseOptions {
  std::string name;  // of the subcommand, for messages
  Label label = Label::kOthers;
  absl::Duration grace = absl::Seconds(8);  // from the first failure until the others are ended
};

// Runs the processes until all have ended. Returns 0, or the exit code of the first that failed
// (128 + n: ended by signal n, its own or ours). After a failure the others may report themselves
// for `grace`, then get SIGTERM, then SIGKILL. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on; a
// second one kills. An error when ranks' output could not be written. Blocks; the calling thread's
// process must have no other children.
absl::StatusOr<int> Supervise(const std::vector<Launch>& launches, const SuperviseOptions& options);

}  // namespace strata
