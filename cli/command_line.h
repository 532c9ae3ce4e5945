#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/exit_codes.h"

namespace strata {

// The command line while subcommands are added to it and parsed. One thread.
class CommandLine {
 public:
  CommandLine();

  CLI::App& app() { return app_; }

  // The words after "--": a program and its arguments, for subcommands that start one.
  const std::vector<std::string>& program() const { return program_; }

  // Runs `action` when `subcommand` is the one that was given; it returns the exit code.
  // TakesProgram: words after "--" are an error for every other subcommand.
  enum class Words { kNone, kTakesProgram };
  void Bind(CLI::App* subcommand, std::function<int()> action, Words words = Words::kNone);

  // Parses and runs. Returns the exit code; errors are one line on stderr, and output that could
  // not be written is one.
  int Run(int argc, char** argv);

 private:
  int ParseAndAct(int argc, char** argv);
  // Reports an error of the subcommand that was given.
  int Fail(const absl::Status& status) const;

  CLI::App app_;
  std::vector<std::string> program_;
  std::function<int()> action_;
  Words words_ = Words::kNone;
};

}  // namespace strata
