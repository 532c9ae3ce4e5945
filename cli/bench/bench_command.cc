#include <memory>
#include <string>

#include "cli/bench/bench.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "kernels/rate.h"
#include "kernels/status.h"
#include "runtime/config/quantity.h"

namespace strata {
namespace {

constexpr char kFooter[] =
    "Runs one rank; a launcher runs one per device, with the environment of torchrun, Slurm, Open\n"
    "MPI or PMIx. How to read the table: docs/benchmarking.md.\n"
    "Examples:\n"
    "  strata lab run --nodes 2 --ranks-per-node 4 --link 1gbit -- \\\n"
    "      strata bench all_gather --sizes 8MiB,64MiB --rate 1gbit\n"
    "  strata run --hosts a:8,b:8 -- \\\n"
    "      strata bench reduce_scatter --rate 25gbit --min-percent-of-bound 80";

struct Words {
  std::string sizes = "64KiB..256MiB";
  int factor = 2;
  std::string dtype = "f32";
  double duration = 2, deadline = 60;
  std::string chunk = "256KiB", credit, rate, min_bandwidth;
  BenchOptions options;
};

absl::Status ParseWords(Words& words) {
  BenchOptions& options = words.options;
  const auto rate = [](const char* option, const std::string& text, int64_t& to) -> absl::Status {
    if (text.empty()) return absl::OkStatus();
    const absl::StatusOr<int64_t> parsed = ParseRate(text);
    if (!parsed.ok()) return Annotate(parsed.status(), option);
    to = *parsed;
    return absl::OkStatus();
  };
  const auto size = [](const char* option, const std::string& text, int64_t& to) -> absl::Status {
    if (text.empty()) return absl::OkStatus();
    const absl::StatusOr<int64_t> parsed = ParseSize(text);
    if (!parsed.ok()) return Annotate(parsed.status(), option);
    to = *parsed;
    return absl::OkStatus();
  };
  absl::StatusOr<std::vector<int64_t>> sizes = ParseSizes(words.sizes, words.factor);
  if (!sizes.ok()) return Annotate(sizes.status(), "--sizes");
  options.sizes = *std::move(sizes);
  options.dtype = words.dtype == "bf16" ? DType::kBf16 : DType::kF32;
  options.duration = absl::Seconds(words.duration);
  options.deadline = absl::Seconds(words.deadline);
  STRATA_RETURN_IF_ERROR(size("--chunk", words.chunk, options.chunk_bytes));
  STRATA_RETURN_IF_ERROR(size("--credit", words.credit, options.credit_bytes));
  STRATA_RETURN_IF_ERROR(rate("--rate", words.rate, options.rate));
  return rate("--min-bandwidth", words.min_bandwidth, options.min_bandwidth);
}

void AddWhatToMeasure(CLI::App& app, Words& words) {
  app.add_option("--sizes", words.sizes, "A sweep, FIRST..LAST, or a list, as in 8MiB,64MiB")
      ->capture_default_str();
  app.add_option("--factor", words.factor, "From one size of a sweep to the next")
      ->capture_default_str();
  app.add_option("--dtype", words.dtype, "Type of elements: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}).description(""))
      ->capture_default_str();
  app.add_option("--warmup", words.options.warmup, "Operations before those that count")
      ->capture_default_str();
  CLI::Option* iterations = app.add_option("--iterations", words.options.iterations,
                                           "Operations of each size (default: by --duration)");
  app.add_option("--duration", words.duration, "Seconds per size, at least five operations")
      ->capture_default_str()
      ->excludes(iterations);
  app.add_flag("--check,!--no-check", words.options.check,
               "Check the data of one operation of each size (default)");
}

void AddHow(CLI::App& app, Words& words) {
  app.add_option("--transport", words.options.transport, "Between nodes: ucx or tcp")
      ->check(CLI::IsMember({"ucx", "tcp"}).description(""))
      ->capture_default_str();
  app.add_option("--interface", words.options.interface,
                 "Between nodes: an interface, address or subnet (default: the route to rank 0)");
  app.add_option("--chunk", words.chunk, "Largest transfer")->capture_default_str();
  app.add_option("--credit", words.credit,
                 "Bytes that a rank may have in flight between nodes (default: as in training)");
  app.add_option("--deadline", words.deadline, "Seconds that one operation may take")
      ->capture_default_str();
}

void AddJudgement(CLI::App& app, Words& words) {
  app.add_option("--rate", words.rate, "Rate of a node's link, for the bound: 1gbit, 25gbit");
  app.add_option("--min-percent-of-bound", words.options.min_percent_of_bound,
                 "Exit with 1 if a size reaches less");
  app.add_option("--min-bandwidth", words.min_bandwidth,
                 "Exit with 1 if a size has less bus bandwidth: 900mbit");
  app.add_option("--json", words.options.json, "Rank 0 writes results and samples here");
  app.add_option("--csv", words.options.csv, "Rank 0 writes a line per size here");
}

void AddKind(CommandLine& line, CLI::App& bench, BenchKind kind, const char* description) {
  CLI::App* app = bench.add_subcommand(Name(kind), description);
  app->footer(kFooter);
  auto words = std::make_shared<Words>();
  words->options.kind = kind;
  AddWhatToMeasure(*app, *words);
  AddHow(*app, *words);
  AddJudgement(*app, *words);
  line.Bind(app, [words] {
    const absl::Status parsed = ParseWords(*words);
    return parsed.ok() ? Bench(words->options) : ReportError("bench", parsed);
  });
}

}  // namespace

void AddBench(CommandLine& line) {
  CLI::App* bench = line.app().add_subcommand("bench", "Measure collectives between these ranks");
  bench->require_subcommand(1);
  AddKind(line, *bench, BenchKind::kAllGather, "Every rank's shard to all ranks");
  AddKind(line, *bench, BenchKind::kReduceScatter, "Sums of all ranks' data, a shard to each");
  AddKind(line, *bench, BenchKind::kAllReduce, "Sums of all ranks' data, to all ranks");
  AddKind(line, *bench, BenchKind::kBroadcast, "Rank 0's data to all ranks");
  AddKind(line, *bench, BenchKind::kAllToAll, "A part of each rank's data to each rank");
  AddKind(line, *bench, BenchKind::kSendRecv, "Each rank's data to its peer on the next node");
}

}  // namespace strata
