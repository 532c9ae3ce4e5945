#include "cli/bench/measurement.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "cli/bench/operation.h"
#include "runtime/config/quantity.h"

namespace strata {
namespace {

// The least sample that `share` of all do not exceed.
double Quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

double Median(const std::vector<double>& sorted) {
  const size_t upper = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[upper] : (sorted[upper - 1] + sorted[upper]) / 2;
}

double Busiest(const std::vector<NodeBytes>& nodes) {
  double most = 0;
  for (const NodeBytes& node : nodes) most = std::max({most, node.sent, node.received});
  return most;
}

}  // namespace

Figures FiguresOf(const Measurement& measurement, int64_t rate) {
  Figures figures;
  figures.wire_bytes = Busiest(measurement.wire);
  figures.interface_bytes = Busiest(measurement.interface);
  if (rate > 0) {
    figures.bound = measurement.formula_bytes / (static_cast<double>(rate) / 8 * kPayloadShare);
  }
  if (measurement.seconds.empty()) return figures;
  std::vector<double> sorted = measurement.seconds;
  std::sort(sorted.begin(), sorted.end());
  figures.min = sorted.front();
  figures.median = Median(sorted);
  figures.p99 = Quantile(sorted, 0.99);
  figures.max = sorted.back();
  figures.algbw = static_cast<double>(measurement.bytes) / figures.median;
  figures.busbw = figures.algbw * BusFactor(measurement.kind, measurement.ranks);
  figures.percent_of_bound = 100 * figures.bound / figures.median;
  return figures;
}

absl::Status CheckFigures(const Measurement& measurement, const Figures& figures,
                          const BenchOptions& options) {
  const std::string what =
      absl::StrFormat("%s of %s", Name(measurement.kind), FormatSize(measurement.bytes));
  if (figures.bound > 0 && figures.percent_of_bound < options.min_percent_of_bound) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s reaches %.1f %% of the bound; --min-percent-of-bound is %g", what,
                        figures.percent_of_bound, options.min_percent_of_bound));
  }
  if (figures.busbw * 8 < static_cast<double>(options.min_bandwidth)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has a bus bandwidth of %.1f Mbit/s; --min-bandwidth is %.1f Mbit/s", what,
        figures.busbw * 8e-6, static_cast<double>(options.min_bandwidth) * 1e-6));
  }
  return absl::OkStatus();
}

}  // namespace strata
