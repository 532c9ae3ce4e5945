#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/train/trainer.h"
#include "runtime/config/config.h"

namespace strata {
namespace {

constexpr char kFooter[] =
    "Runs one rank; a launcher runs one per device, with the environment of torchrun, Slurm, Open\n"
    "MPI or PMIx. Keys of the file: docs/configuration.md.\n"
    "Examples:\n"
    "  strata train gpt.yaml --metrics gpt.jsonl\n"
    "  strata lab run --nodes 2 --ranks-per-node 2 --link 100mbit -- \\\n"
    "      strata train gpt.yaml --set layout=iig --set train.steps=50";

}  // namespace

void AddTrain(CommandLine& line) {
  CLI::App* train = line.app().add_subcommand("train", "Train the reference model");
  train->footer(kFooter);
  struct Options {
    std::string file;
    std::vector<std::string> overrides;
    TrainOptions train;
  };
  auto options = std::make_shared<Options>();
  train->add_option("file", options->file, "Configuration, YAML")->required();
  train->add_option("--set", options->overrides, "Override one key, as in train.steps=50")
      ->allow_extra_args(false);
  train->add_option("--metrics", options->train.metrics,
                    "Rank 0 writes one JSON object per step here, and a summary");
  train->add_option("--trace", options->train.trace,
                    "Rank 0 writes a timeline for ui.perfetto.dev here");
  line.Bind(train, [options] {
    absl::StatusOr<Config> config = Config::Load(options->file, options->overrides);
    if (!config.ok()) return ReportError("train", config.status());
    options->train.config = config->values();
    const absl::Status status = Train(options->train);
    return status.ok() ? 0 : ReportError("train", status);
  });
}

}  // namespace strata
