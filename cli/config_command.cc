#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "runtime/config/config.h"

namespace strata {
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  strata config gpt.yaml --set layout=iig\n"
    "  strata config gpt.yaml --effective\n"
    "  strata config --keys";

}  // namespace

void AddConfig(CommandLine& line) {
  CLI::App* config = line.app().add_subcommand("config", "Check a configuration file");
  config->footer(kFooter);
  struct Options {
    std::string file;
    std::vector<std::string> overrides;
    bool effective = false, keys = false;
  };
  auto options = std::make_shared<Options>();
  config->add_option("file", options->file, "Configuration, YAML");
  config->add_option("--set", options->overrides, "Override one key, as in train.steps=50")
      ->allow_extra_args(false);
  config->add_flag("--effective", options->effective, "Print every value and where it came from");
  config->add_flag("--keys", options->keys, "Print every key, what is allowed and its default");
  line.Bind(config, [options] {
    if (options->keys) std::fputs(ConfigHelp().c_str(), stdout);
    if (options->file.empty()) {
      return options->keys
                 ? 0
                 : ReportError("config",
                               absl::InvalidArgumentError("no file; give one, or --keys"));
    }
    const absl::StatusOr<Config> checked = Config::Load(options->file, options->overrides);
    if (!checked.ok()) return ReportError("config", checked.status());
    if (options->effective) {
      std::fputs(checked->Effective().c_str(), stdout);
    } else {
      std::printf("%s is valid\n", options->file.c_str());
    }
    return 0;
  });
}

}  // namespace strata
