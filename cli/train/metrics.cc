#include "cli/train/metrics.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

nlohmann::json Bytes(int64_t sent, int64_t received) {
  return {{"sent", sent}, {"received", received}};
}

}  // namespace

nlohmann::json StepLine(const StepReport& report, const StepMeasure& measure) {
  nlohmann::json exposed, bytes, node_bytes, planned, overlap;
  for (const StepReport::PerLevel& level : report.levels) {
    exposed[level.name] = absl::ToDoubleSeconds(level.exposed);
    overlap[level.name] = level.overlap;
    bytes[level.name] = Bytes(level.sent_bytes, level.received_bytes);
    planned[level.name] = Bytes(level.planned_sent_bytes, level.planned_received_bytes);
    node_bytes[level.name] = Bytes(level.node_sent_bytes, level.node_received_bytes);
  }
  return {{"schema", kMetricsSchema},
          {"step", report.step},
          {"loss", measure.loss},
          {"loss_bits",
           absl::StrCat(absl::Hex(std::bit_cast<uint64_t>(report.loss), absl::kZeroPad16))},
          {"tokens", report.tokens},
          {"step_seconds", absl::ToDoubleSeconds(report.duration)},
          {"compute_seconds", absl::ToDoubleSeconds(report.compute)},
          {"forward_seconds", absl::ToDoubleSeconds(measure.forward)},
          {"backward_seconds", absl::ToDoubleSeconds(measure.backward)},
          {"exposed_wait_seconds", exposed},
          {"overlap", overlap},
          {"bytes", bytes},
          {"planned_bytes", planned},
          {"node_bytes", node_bytes},
          {"exchange_sent_bytes", report.exchange_sent_bytes},
          {"grad_norm_before_clip", report.norm_before_clip},
          {"grad_norm_after_clip", report.norm_after_clip},
          {"skipped", report.skipped},
          {"peak_unit_bytes", report.peak_unit_bytes},
          {"missed_prefetches", report.missed_prefetches}};
}

absl::StatusOr<MetricsFile> MetricsFile::Create(const std::string& path) {
  STRATA_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create("--metrics", path));
  return MetricsFile(std::move(file));
}

absl::Status MetricsFile::Write(const nlohmann::json& line) {
  return file_.Write(line.dump() + "\n");
}

}  // namespace strata
