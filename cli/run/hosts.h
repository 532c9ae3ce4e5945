#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata {

// One host of a job and how many ranks it gets.
struct Host {
  std::string name;
  int ranks = 1;
};

// Hosts of "a,b:4": one rank on a, four on b. InvalidArgument names the word that is wrong.
absl::StatusOr<std::vector<Host>> ParseHosts(const std::string& text);

// `word` as one word of a POSIX shell, whatever it contains.
std::string ShellQuote(const std::string& word);

// What the shell of a remote host runs for one rank: reads the job token as the first line of its
// standard input, sets the environment, starts the program in `folder`, passes on the signals that
// follow as lines ("TERM"), and kills the program when its input ends, that is, when we are gone.
// What the program left running ends with it.
std::string RemoteScript(const std::string& folder, const std::vector<std::string>& environment,
                         const std::vector<std::string>& program);

}  // namespace strata
