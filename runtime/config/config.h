#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/config/train_config.h"

namespace strata {

// A configuration file with its overrides, checked: values, and where each came from. One file
// serves every command and embedders. Immutable.
class Config {
 public:
  // Reads the YAML file, then "key.path=value" overrides, which win. InvalidArgument has one line
  // per problem, and all of them: where (file:line or --set), key, what is written, what is
  // allowed.
  static absl::StatusOr<Config> Load(const std::string& file,
                                     std::span<const std::string> overrides = {});

  // The same from text; `name` stands for the file in messages.
  static absl::StatusOr<Config> Parse(const std::string& text, const std::string& name,
                                      std::span<const std::string> overrides = {});

  const TrainConfig& values() const { return values_; }

  // Every value that applies and where it came from (default, file:line, --set), as a configuration
  // file with comments: Parse reads back the same values.
  std::string Effective() const;

 private:
  friend class ConfigBuilder;
  Config() = default;

  TrainConfig values_;
  std::vector<std::string> origins_;  // per key
};

// Every key with what is allowed, its default and what it means: for --help.
std::string ConfigHelp();

// The same as Markdown tables, one per section: the body of docs/configuration.md.
std::string ConfigReference();

}  // namespace strata
