#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/demo/demo_run.h"
#include "cli/output_file.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr char kFooter[] =
    "Trains a byte-level GPT in an emulated cluster (see `strata lab run --help`), flat and then\n"
    "hierarchical, and compares the two. Ideal is the least time a step could take on these "
    "links.\n"
    "Example:\n"
    "  strata demo --text corpus.txt --json demo.json";

void PrintRow(const nlohmann::json& row) {
  const double step = row["step_seconds"], ideal = row["ideal_step_seconds"];
  std::printf("%-8s %6.3f -> %6.3f %9.3f s %8.1f %% %10.2f MB %10.2f MB %8.3f s %8.3f s %7.1f %%\n",
              row["layout"].get<std::string>().c_str(), row["first_loss"].get<double>(),
              row["loss"].get<double>(), step, 100 * ideal / step,
              row["wire_bytes_per_node_step"].get<double>() / 1e6,
              row["counter_bytes_per_node_step"].get<double>() / 1e6,
              row["exposed_wait_seconds"]["node"].get<double>(),
              row["exposed_wait_seconds"]["cluster"].get<double>(),
              100 * row["overlap"].get<double>());
}

void PrintTable(const nlohmann::json& result) {
  std::printf("\n%-8s %16s %11s %10s %13s %13s %10s %10s %9s\n", "layout", "loss", "step",
              "of ideal", "sent/node", "on the wire", "wait node", "wait net", "overlap");
  for (const nlohmann::json& row : result["runs"]) PrintRow(row);
  std::printf("\nspeed-up of iig over zero3: %.2f x\n", result["speedup"].get<double>());
}

absl::Status RunBoth(const DemoOptions& options, const std::string& json) {
  STRATA_RETURN_IF_ERROR(CheckDemo(options));
  std::optional<OutputFile> file;
  if (!json.empty()) {
    STRATA_ASSIGN_OR_RETURN(file, OutputFile::Create("--json", json));
  }
  STRATA_RETURN_IF_ERROR(ClaimFolder(options.folder));
  nlohmann::json result = {{"schema", 1}, {"runs", nlohmann::json::array()}};
  for (const char* layout : {"zero3", "iig"}) {
    STRATA_ASSIGN_OR_RETURN(nlohmann::json row, RunDemo(options, layout));
    result["runs"].push_back(std::move(row));
  }
  result["speedup"] = result["runs"][0]["step_seconds"].get<double>() /
                      result["runs"][1]["step_seconds"].get<double>();
  PrintTable(result);
  std::printf("timelines, for ui.perfetto.dev: %s/zero3.trace.json %s/iig.trace.json\n",
              options.folder.c_str(), options.folder.c_str());
  return file ? file->Write(result.dump(2) + "\n") : absl::OkStatus();
}

}  // namespace

void AddDemo(CommandLine& line) {
  CLI::App* demo = line.app().add_subcommand("demo", "Flat against hierarchical, on this machine");
  demo->footer(kFooter);
  struct Options {
    DemoOptions demo;
    std::string json;
  };
  auto options = std::make_shared<Options>();
  options->demo.folder = "demo";
  demo->add_option("--text", options->demo.text, "Text to train on, any file")->required();
  demo->add_option("--folder", options->demo.folder, "For metrics, timelines and logs")
      ->capture_default_str();
  demo->add_option("--link", options->demo.link, "Rate of each node's link")->capture_default_str();
  demo->add_option("--steps", options->demo.steps, "Steps of each run, at least 4")
      ->check(CLI::Range(4, 100000).description(""))
      ->capture_default_str();
  demo->add_option("--json", options->json, "Write the table as JSON as well");
  line.Bind(demo, [options] {
    const absl::Status status = RunBoth(options->demo, options->json);
    return status.ok() ? 0 : ReportError("demo", status);
  });
}

}  // namespace strata
