#include "cli/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

#ifndef STRATA_VERSION
#error "STRATA_VERSION comes from CMake"
#endif

namespace strata {
namespace {

// The deepest subcommand that was given, for "see … --help".
std::string DeepestName(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* sub = &app; !sub->get_subcommands().empty();) {
    sub = sub->get_subcommands().front();
    name += " " + sub->get_name();
  }
  return name;
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
    return Fail(absl::InvalidArgumentError(
        absl::StrCat(error.what(), " (see ", DeepestName(app_), " --help)")));
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
  return ReportError(DeepestName(app_), status);
}

}  // namespace strata
