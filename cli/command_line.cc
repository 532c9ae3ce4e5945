#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <utility>

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

std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
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
  // Split here: CLI11 would take a second "--" and the program's own options for its own.
  char** split =
      std::find_if(argv, argv + argc, [](char* word) { return word == std::string("--"); });
  const bool has_program = split != argv + argc;
  if (has_program) program_.assign(split + 1, argv + argc);
  try {
    app_.parse(static_cast<int>(split - argv), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_.exit(error);
    const std::string name = DeepestName(app_);
    std::fprintf(stderr, "%s: %s (see %s --help)\n", name.c_str(), OneLine(error.what()).c_str(),
                 name.c_str());
    return kExitBadInput;
  }
  if (has_program && words_ == Words::kNone) {
    std::fprintf(stderr, "%s: starts no program; remove \"--\" and what follows it\n",
                 DeepestName(app_).c_str());
    return kExitBadInput;
  }
  return action_();
}

}  // namespace strata
