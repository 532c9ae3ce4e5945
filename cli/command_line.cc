#include "cli/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/config/key_table.h"

#ifndef STRATA_VERSION
#error "STRATA_VERSION comes from CMake"
#endif

namespace strata {
namespace {

// The deepest subcommand that was given.
const CLI::App& Deepest(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  return *deepest;
}

// "lab run": the subcommands that were given.
std::string GivenNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub = &app; !sub->get_subcommands().empty();) {
    sub = sub->get_subcommands().front();
    names.push_back(sub->get_name());
  }
  return absl::StrJoin(names, " ");
}

// What is said instead of a subcommand of `app`, and what there is.
std::string NoSuchCommand(const CLI::App& app) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const std::string all = absl::StrCat("commands: ", absl::StrJoin(commands, ", "));
  for (const std::string& word : app.remaining()) {
    if (absl::StartsWith(word, "-")) return absl::StrCat("there is no option \"", word, "\"");
    const auto distance = [&word](const std::string& name) { return EditDistance(word, name); };
    return absl::StrCat("there is no command \"", word, "\"; the nearest is ",
                        *std::ranges::min_element(commands, {}, distance), "; ", all);
  }
  return absl::StrCat("no command is given; ", all);
}

}  // namespace

CommandLine::CommandLine() : app_("Strata: hierarchical asynchronous sharded training", "strata") {
  app_.set_version_flag("--version", std::string("strata ") + STRATA_VERSION);
  app_.require_subcommand(1);
  app_.footer(
      "Examples:\n"
      "  strata lab run --nodes 2 --ranks-per-node 2 --link 100mbit -- hostname\n"
      "  strata run --hosts a,b:4 -- python3 train.py\n"
      "Each subcommand has its own --help.");
}

void CommandLine::Bind(CLI::App* subcommand, std::function<int()> action, Words words) {
  subcommand->callback([this, action = std::move(action), words] {
    action_ = action;
    words_ = words;
  });
}

int CommandLine::Run(int argc, char** argv) {
  const int code = ParseAndAct(argc, argv);
  // What is buffered until now may not fit where it goes. What did not fit before has its reason no
  // more.
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != 0) return code;
  return Fail(absl::DataLossError(
      absl::StrCat("cannot write standard output: ",
                   errno != 0 ? std::strerror(errno) : "a part of it is lost")));
}

int CommandLine::ParseAndAct(int argc, char** argv) {
  // Split here: CLI11 would take a second "--" and the program's own options for its own.
  char** split =
      std::find_if(argv, argv + argc, [](char* word) { return word == std::string("--"); });
  const bool has_program = split != argv + argc;
  if (has_program) program_.assign(split + 1, argv + argc);
  try {
    app_.parse(static_cast<int>(split - argv), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_.exit(error);
    const CLI::App& deepest = Deepest(app_);
    const bool lacks_command =
        deepest.get_require_subcommand_min() > 0 && error.get_name() == "RequiredError";
    const std::string given = GivenNames(app_);
    return Fail(absl::InvalidArgumentError(
        absl::StrCat(lacks_command ? NoSuchCommand(deepest) : error.what(), " (see strata ", given,
                     given.empty() ? "" : " ", "--help)")));
  }
  if (has_program && words_ == Words::kNone) {
    return Fail(absl::InvalidArgumentError("starts no program; remove \"--\" and what follows it"));
  }
  try {
    return action_();
  } catch (const std::bad_alloc&) {
    return Fail(absl::ResourceExhaustedError("does not fit the memory of this host"));
  } catch (const std::exception& error) {
    return Fail(absl::InternalError(error.what()));
  }
}

int CommandLine::Fail(const absl::Status& status) const {
  return ReportError(GivenNames(app_), status);
}

}  // namespace strata
