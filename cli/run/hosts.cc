#include "cli/run/hosts.h"

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata {

absl::StatusOr<std::vector<Host>> ParseHosts(const std::string& text) {
  std::vector<Host> hosts;
  std::set<std::string> names;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    Host host{parts[0], 1};
    // A name that begins with a dash would be an option to ssh.
    const bool named = !host.name.empty() && host.name[0] != '-';
    const bool counted =
        parts.size() == 1 || (parts.size() == 2 && absl::SimpleAtoi(parts[1], &host.ranks) &&
                              host.ranks >= 1 && host.ranks <= 1000);
    if (!named || !counted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--hosts: \"", word, "\" is not HOST or HOST:RANKS with 1 to 1000 ranks, as in a,b:4"));
    }
    if (!names.insert(host.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("--hosts: \"", host.name, "\" appears twice"));
    }
    hosts.push_back(host);
  }
  return hosts;
}

std::string ShellQuote(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string RemoteScript(const std::string& folder, const std::vector<std::string>& environment,
                         const std::vector<std::string>& program) {
  std::string exports, words;
  for (const std::string& variable : environment) exports += " " + ShellQuote(variable);
  for (const std::string& word : program) words += " " + ShellQuote(word);
  // The watcher keeps our input as descriptor 3. The program has a session of its own, so that its
  // number is that of its process group. A shell that knows no job control gives the same exit
  // codes.
  const std::string script = absl::StrCat(
      "IFS= read -r STRATA_TOKEN || exit 1; export STRATA_TOKEN", exports, "\n", "cd ",
      ShellQuote(folder), " || exit 1\n", "exec 3<&0\n", "setsid env --default-signal=INT,QUIT",
      words, " </dev/null 3<&- &\n", "program=$!\n",
      "{ while IFS= read -r signal; do kill -s \"$signal\" -- \"-$program\"; done\n",
      "  kill -s KILL -- \"-$program\"; } <&3 >/dev/null 2>&1 &\n", "watcher=$!\n",
      "wait \"$program\"; code=$?\n",
      "kill \"$watcher\" 2>/dev/null; kill -s KILL -- \"-$program\" 2>/dev/null\n",
      "exit \"$code\"\n");
  // Whatever the login shell is, a POSIX one reads the script.
  return "exec sh -c " + ShellQuote(script);
}

}  // namespace strata
