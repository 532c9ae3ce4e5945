#include "cli/bench/benchmark.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/bench/pattern.h"
#include "cli/train/interface_counters.h"
#include "kernels/status.h"
#include "runtime/config/quantity.h"

namespace strata {
namespace {

// In front of the times of a rank's record: bytes sent and received over the outermost level.
constexpr int64_t kBytesNumbers = 2;

// A pattern that no operation leaves behind by itself.
constexpr int kScrub = 0xa5;

std::string Describe(const Operation& operation) {
  return absl::StrCat(Name(operation.kind), " of ", FormatSize(operation.bytes));
}

int OutermostLevel(const Topology& topology) { return topology.level_count() - 1; }

}  // namespace

absl::StatusOr<std::unique_ptr<Benchmark>> Benchmark::Create(World& world,
                                                             const BenchOptions& options,
                                                             std::string interface) {
  std::unique_ptr<Benchmark> made(new Benchmark(world, options, std::move(interface)));
  for (const int64_t bytes : options.sizes) {
    STRATA_ASSIGN_OR_RETURN(Operation operation,
                            MakeOperation(world.topology(), options, bytes, world.self()));
    made->operations_.push_back(std::move(operation));
  }
  STRATA_ASSIGN_OR_RETURN(made->memory_,
                          OperationMemory::Allocate(world.shared_memory(), made->operations_));
  STRATA_ASSIGN_OR_RETURN(
      made->records_, Records::Create(world, kBytesNumbers + kMostIterations, options.deadline));
  return made;
}

absl::Status Benchmark::Run(const std::function<void(const Measurement&)>& measured) {
  for (const Operation& operation : operations_) {
    STRATA_ASSIGN_OR_RETURN(const Measurement measurement, Measure(operation));
    measured(measurement);
  }
  return absl::OkStatus();
}

absl::StatusOr<Measurement> Benchmark::Measure(const Operation& operation) {
  const std::string what = Describe(operation);
  const Topology& topology = world_.topology();
  Repeater& repeater = *repeaters_.emplace_back(std::make_unique<Repeater>(
      world_.gather(), topology.level_count(), operation, memory_, next_number_));
  Measurement measurement{.kind = operation.kind,
                          .bytes = operation.bytes,
                          .seconds = {},
                          .wire = {},
                          .interface = {},
                          .formula_bytes = FormulaBytes(topology, operation.kind, operation.bytes),
                          .ranks = topology.size(),
                          .verified = options_.check};
  if (options_.check) STRATA_RETURN_IF_ERROR(CheckData(operation, repeater));
  STRATA_ASSIGN_OR_RETURN(const int64_t iterations, WarmUp(repeater, what));

  // Nobody sends between these two exchanges, nor between the two below.
  STRATA_ASSIGN_OR_RETURN(const std::vector<double> before, ReadInterface());
  STRATA_RETURN_IF_ERROR(records_->Exchange({}, what).status());
  // The first is left out: it gets what the link lets through at once after the pause.
  STRATA_ASSIGN_OR_RETURN(Repeater::Result result, repeater.Run(iterations + 1, options_.deadline));
  next_number_ = repeater.next_number();
  STRATA_RETURN_IF_ERROR(CheckCounters(operation, result));
  const WireBytes& moved = result.moved[OutermostLevel(topology)];
  std::vector<double> mine = {static_cast<double>(moved.sent), static_cast<double>(moved.received)};
  for (size_t i = 1; i < result.times.size(); ++i) {
    mine.push_back(absl::ToDoubleSeconds(result.times[i]));
  }
  STRATA_ASSIGN_OR_RETURN(const Records2d times, records_->Exchange(mine, what));
  STRATA_ASSIGN_OR_RETURN(std::vector<double> interface, ReadInterface());
  for (size_t i = 0; i < 2; ++i) interface[i] -= before[i];
  interface.insert(interface.end(), mine.begin(), mine.begin() + kBytesNumbers);
  for (double& bytes : std::span(interface)) bytes /= static_cast<double>(iterations + 1);
  STRATA_ASSIGN_OR_RETURN(const Records2d bytes, records_->Exchange(interface, what));

  measurement.seconds.assign(static_cast<size_t>(iterations), 0);
  for (const std::vector<double>& of : times) {
    for (size_t i = 0; i < measurement.seconds.size(); ++i) {
      measurement.seconds[i] += of[kBytesNumbers + i] / topology.size();
    }
  }
  AddNodeBytes(bytes, measurement);
  return measurement;
}

absl::Status Benchmark::CheckData(const Operation& operation, Repeater& repeater) {
  const Topology& topology = world_.topology();
  const std::span<std::byte> output = memory_.output(operation);
  FillInput(operation, topology, world_.self(), memory_.input(operation));
  std::memset(output.data(), kScrub, output.size());
  STRATA_RETURN_IF_ERROR(repeater.Run(1, options_.deadline).status());
  return Annotate(VerifyOutput(operation, topology, world_.self(), output), Describe(operation));
}

// How many operations are to be measured: the same on all ranks.
absl::StatusOr<int64_t> Benchmark::WarmUp(Repeater& repeater, const std::string& what) {
  STRATA_ASSIGN_OR_RETURN(const Repeater::Result result,
                          repeater.Run(options_.warmup, options_.deadline));
  const double mine[] = {absl::ToDoubleSeconds(result.times.back())};
  STRATA_ASSIGN_OR_RETURN(const Records2d all, records_->Exchange(mine, what));
  if (options_.iterations > 0) return options_.iterations;
  double slowest = 1e-9;
  for (const std::vector<double>& of : all) slowest = std::max(slowest, of[0]);
  const double fit = absl::ToDoubleSeconds(options_.duration) / slowest;
  return static_cast<int64_t>(std::clamp<double>(fit, kLeastIterations, kMostIterations));
}

// What the transports completed must be what the plans say.
absl::Status Benchmark::CheckCounters(const Operation& operation,
                                      const Repeater::Result& result) const {
  const auto times = static_cast<int64_t>(result.times.size());
  for (int level = 0; level < world_.topology().level_count(); ++level) {
    WireBytes planned;
    for (const auto& stage : operation.stages) {
      const WireBytes bytes = CountWireBytes(*stage, level);
      planned.sent += bytes.sent * times;
      planned.received += bytes.received * times;
    }
    const WireBytes& moved = result.moved[level];
    if (moved.sent == planned.sent && moved.received == planned.received) continue;
    return absl::InternalError(
        absl::StrCat(Describe(operation), ": level ", world_.topology().levels()[level].name,
                     ": sent ", moved.sent, " and received ", moved.received,
                     " bytes, planned were ", planned.sent, " and ", planned.received));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> Benchmark::ReadInterface() const {
  const Topology& topology = world_.topology();
  const RankSpan node = topology.Members(0, topology.Group(world_.self(), 0));
  if (interface_.empty() || Index(world_.self()) != node.first) return std::vector<double>(2);
  STRATA_ASSIGN_OR_RETURN(const InterfaceBytes bytes, ReadInterfaceBytes(interface_));
  return std::vector<double>{static_cast<double>(bytes.sent), static_cast<double>(bytes.received)};
}

// `records` have per rank: interface sent and received, wire sent and received.
void Benchmark::AddNodeBytes(const Records2d& records, Measurement& measurement) const {
  const Topology& topology = world_.topology();
  for (const RankSpan& node : topology.Children(OutermostLevel(topology), 0)) {
    NodeBytes wire, interface;
    for (int rank = node.first; rank < node.first + node.count; ++rank) {
      interface.sent += records[rank][0];
      interface.received += records[rank][1];
      wire.sent += records[rank][2];
      wire.received += records[rank][3];
    }
    measurement.wire.push_back(wire);
    if (!interface_.empty()) measurement.interface.push_back(interface);
  }
}

}  // namespace strata
