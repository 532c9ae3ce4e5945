#include "cli/bench/report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/bench/operation.h"
#include "kernels/status.h"
#include "runtime/config/quantity.h"

namespace strata {
namespace {

constexpr char kDefinitions[] =
    "time   of one operation, back to back, mean over the ranks; p99 is the nearest rank\n"
    "algbw  bytes / median; bytes are the larger of a rank's input and output\n"
    "busbw  algbw x 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and "
    "all_to_all,\n"
    "       1 for broadcast and sendrecv, n ranks (as nccl-tests)\n"
    "bound  formula / payload rate of a node's link (--rate x 1448/1514); %bound = bound / median\n"
    "wire   payload bytes per operation that the busiest node sent or received; equal to the "
    "plan's\n"
    "formula  the least bytes there are between nodes; interface: the same as the kernel counted "
    "it\n";

nlohmann::json NodeJson(const std::vector<NodeBytes>& nodes) {
  nlohmann::json list = nlohmann::json::array();
  for (const NodeBytes& node : nodes) {
    list.push_back({{"sent", node.sent}, {"received", node.received}});
  }
  return list;
}

// A number, or nothing where it is not known.
std::string Known(const char* format, double value) {
  if (value == 0) return "-";
  return absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), value);
}

nlohmann::json OrNull(double value) {
  return value == 0 ? nlohmann::json() : nlohmann::json(value);
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

nlohmann::json CommandWords() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words = absl::StrSplit(text, '\0');
  if (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

nlohmann::json ResultJson(const Measurement& measurement, const BenchOptions& options,
                          const std::string& algorithm) {
  const Figures f = FiguresOf(measurement, options.rate);
  return {{"op", Name(measurement.kind)},
          {"bytes", measurement.bytes},
          {"dtype", Name(options.dtype)},
          {"transport", options.transport},
          {"algorithm", algorithm},
          {"seconds", {{"min", f.min}, {"median", f.median}, {"p99", f.p99}, {"max", f.max}}},
          {"iterations", measurement.seconds.size()},
          {"algbw", f.algbw},
          {"busbw", f.busbw},
          {"bound_seconds", OrNull(f.bound)},
          {"percent_of_bound", OrNull(f.percent_of_bound)},
          {"wire_bytes_per_node", f.wire_bytes},
          {"formula_bytes_per_node", measurement.formula_bytes},
          {"interface_bytes_per_node", OrNull(f.interface_bytes)},
          {"nodes",
           {{"wire", NodeJson(measurement.wire)}, {"interface", NodeJson(measurement.interface)}}},
          {"verified", measurement.verified},
          {"samples_seconds", measurement.seconds}};
}

std::string TableHeader() {
  return absl::StrFormat("%9s %9s %9s %9s %9s %6s %9s %9s %9s %7s %12s %12s %12s\n", "bytes", "min",
                         "median", "p99", "max", "count", "algbw", "busbw", "bound", "%bound",
                         "wire/node", "formula", "interface") +
         absl::StrFormat("%9s %9s %9s %9s %9s %6s %9s %9s %9s %7s %12s %12s %12s", "", "ms", "ms",
                         "ms", "ms", "", "MB/s", "MB/s", "ms", "", "bytes", "bytes", "bytes");
}

std::string TableRow(const Measurement& measurement, const BenchOptions& options) {
  const Figures f = FiguresOf(measurement, options.rate);
  return absl::StrFormat("%9s %9.3f %9.3f %9.3f %9.3f %6d %9.2f %9.2f %9s %7s %12s %12s %12s",
                         FormatSize(measurement.bytes), f.min * 1e3, f.median * 1e3, f.p99 * 1e3,
                         f.max * 1e3, measurement.seconds.size(), f.algbw * 1e-6, f.busbw * 1e-6,
                         Known("%.3f", f.bound * 1e3), Known("%.1f", f.percent_of_bound),
                         Known("%.0f", f.wire_bytes), Known("%.0f", measurement.formula_bytes),
                         Known("%.0f", f.interface_bytes));
}

std::string CsvHeader() {
  return "op,bytes,dtype,transport,seconds_min,seconds_median,seconds_p99,seconds_max,iterations,"
         "algbw,busbw,bound_seconds,percent_of_bound,wire_bytes_per_node,formula_bytes_per_node,"
         "interface_bytes_per_node,verified";
}

std::string CsvRow(const Measurement& measurement, const BenchOptions& options) {
  const Figures f = FiguresOf(measurement, options.rate);
  const auto known = [](double value) {
    return value == 0 ? std::string() : absl::StrFormat("%.9g", value);
  };
  return absl::StrFormat("%s,%d,%s,%s,%.9g,%.9g,%.9g,%.9g,%d,%.9g,%.9g,%s,%s,%.0f,%.0f,%s,%d",
                         Name(measurement.kind), measurement.bytes, Name(options.dtype),
                         options.transport, f.min, f.median, f.p99, f.max,
                         measurement.seconds.size(), f.algbw, f.busbw, known(f.bound),
                         known(f.percent_of_bound), f.wire_bytes, measurement.formula_bytes,
                         known(f.interface_bytes), measurement.verified ? 1 : 0);
}

Report::Report(const BenchOptions& options, World& world, std::string interface)
    : options_(options),
      world_(world),
      interface_(std::move(interface)),
      algorithm_(AlgorithmName(world.topology(), options.kind)) {}

absl::Status Report::Open() {
  if (!options_.json.empty()) {
    STRATA_ASSIGN_OR_RETURN(json_, OutputFile::Create("--json", options_.json));
  }
  if (options_.csv.empty()) return absl::OkStatus();
  STRATA_ASSIGN_OR_RETURN(csv_, OutputFile::Create("--csv", options_.csv));
  return csv_->Write(CsvHeader() + "\n");
}

void Report::Begin() const {
  const Topology& topology = world_.topology();
  std::printf("%s: %d ranks on %d nodes, %s, %s between nodes%s, %s\n%s\n", Name(options_.kind),
              topology.size(), topology.group_count(0), Name(options_.dtype),
              options_.transport.c_str(),
              interface_.empty() ? "" : absl::StrCat(" over ", interface_).c_str(),
              algorithm_.c_str(), TableHeader().c_str());
  std::fflush(stdout);
}

void Report::Add(const Measurement& measurement) {
  std::printf("%s\n", TableRow(measurement, options_).c_str());
  std::fflush(stdout);
  if (csv_) written_.Update(csv_->Write(CsvRow(measurement, options_) + "\n"));
  results_.push_back(ResultJson(measurement, options_, algorithm_));
}

absl::Status Report::End(const absl::Status& status) {
  std::printf("%s", kDefinitions);
  std::fflush(stdout);
  if (!json_) return written_;
  nlohmann::json json = {{"schema_version", kBenchSchema},
                         {"command", CommandWords()},
                         {"environment", Environment()},
                         {"complete", status.ok()},
                         {"results", results_}};
  if (!status.ok()) json["error"] = std::string(status.message());
  written_.Update(json_->Write(json.dump(1) + "\n"));
  return written_;
}

nlohmann::json Report::Environment() const {
  const Topology& topology = world_.topology();
  utsname system = {};
  uname(&system);
  nlohmann::json nodes = nlohmann::json::array();
  for (int node = 0; node < topology.group_count(0); ++node) {
    const RankSpan ranks = topology.Members(0, node);
    nodes.push_back({{"host", world_.host(Rank{ranks.first})}, {"ranks", ranks.count}});
  }
  return {{"ranks", topology.size()},
          {"nodes", nodes},
          {"transport", options_.transport},
          {"interface", interface_},
          {"rate_bits_per_second", options_.rate},
          {"payload_share", kPayloadShare},
          {"chunk_bytes", options_.chunk_bytes},
          {"credit_bytes", options_.credit_bytes},
          {"kernel", absl::StrCat(system.sysname, " ", system.release)},
          {"processors", sysconf(_SC_NPROCESSORS_ONLN)},
          {"congestion_control", FirstLine("/proc/sys/net/ipv4/tcp_congestion_control")}};
}

}  // namespace strata
