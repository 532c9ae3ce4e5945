#include "cli/bench/bench.h"

#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/bench/benchmark.h"
#include "cli/bench/interrupt.h"
#include "cli/bench/report.h"
#include "cli/exit_codes.h"
#include "comm/interfaces.h"
#include "comm/world.h"
#include "kernels/status.h"

namespace strata {
namespace {

// Within a node a message takes no memory until its receiver copies it.
constexpr int64_t kNodeCredit = int64_t{1} << 40;

absl::StatusOr<WorldOptions> Job(const BenchOptions& options) {
  STRATA_ASSIGN_OR_RETURN(WorldOptions job, WorldOptionsFromEnvironment());
  job.transport = options.transport;
  if (!options.interface.empty()) job.interface = options.interface;
  if (options.credit_bytes > 0) job.credit_bytes = {kNodeCredit, options.credit_bytes};
  job.fingerprint = BenchFingerprint(options);
  return job;
}

// The interface whose counters tell what crosses between nodes. None where all is on one host: its
// loopback counts for all nodes at once.
absl::StatusOr<std::string> CountedInterface(const World& world, const WorldOptions& job) {
  if (world.topology().group_count(0) < 2) return std::string();
  STRATA_ASSIGN_OR_RETURN(const Interface interface,
                          ResolveInterface(job.interface, job.rendezvous_host));
  return IsLoopback(interface.address) ? std::string() : interface.name;
}

// Measures; what the figures lack is told in `shortfall`.
absl::Status Measure(Benchmark& benchmark, const BenchOptions& options,
                     std::optional<Report>& report, absl::Status& shortfall) {
  if (report) {
    STRATA_RETURN_IF_ERROR(report->Open());
    report->Begin();
  }
  const absl::Status status = benchmark.Run([&](const Measurement& measurement) {
    if (report) report->Add(measurement);
    const absl::Status good =
        CheckFigures(measurement, FiguresOf(measurement, options.rate), options);
    if (shortfall.ok()) shortfall = good;
  });
  const absl::Status told = report ? report->End(status) : absl::OkStatus();
  return status.ok() ? told : status;
}

absl::Status MeasureIn(World& world, const WorldOptions& job, const BenchOptions& options,
                       absl::Status& shortfall) {
  std::unique_ptr<Benchmark> benchmark;
  const auto measure = [&]() -> absl::Status {
    STRATA_ASSIGN_OR_RETURN(const std::string interface, CountedInterface(world, job));
    STRATA_ASSIGN_OR_RETURN(benchmark, Benchmark::Create(world, options, interface));
    std::optional<Report> report;
    if (world.self() == Rank{0}) report.emplace(options, world, interface);
    return Measure(*benchmark, options, report, shortfall);
  };
  const absl::Status status = measure();
  const absl::Status left = world.Leave(status);
  world.CloseLanes(status.ok() ? absl::CancelledError("the benchmark has ended") : status);
  // Where this rank only saw the consequence, the verdict says why the world ended.
  return status.ok() || (absl::IsUnavailable(status) && !left.ok()) ? left : status;
}

}  // namespace

int Bench(const BenchOptions& options) {
  if (const absl::Status good = CheckBench(options); !good.ok()) return ReportError("bench", good);
  const absl::StatusOr<WorldOptions> job = Job(options);
  if (!job.ok()) return ReportError("bench", job.status());
  const absl::StatusOr<std::unique_ptr<World>> world = World::Join(*job);
  if (!world.ok()) return ReportError("bench", world.status());
  CatchInterrupts();
  absl::Status shortfall;
  const absl::Status status = MeasureIn(**world, *job, options, shortfall);
  if (Interrupted()) return 128 + SIGINT;
  if (!status.ok()) return ReportError("bench", status);
  if (shortfall.ok()) return 0;
  if ((*world)->self() == Rank{0}) ReportError("bench", shortfall);
  return kExitFailure;
}

}  // namespace strata
