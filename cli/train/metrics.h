#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/output_file.h"
#include "nlohmann/json.hpp"
#include "runtime/step_report.h"

namespace strata {

inline constexpr int kMetricsSchema = 1;

// What one step computed, next to the runtime's report of the same step.
struct StepMeasure {
  double loss = 0;                   // mean over ranks and micro-steps
  absl::Duration forward, backward;  // computing, of all micro-steps of this rank
};

// One line of `train --metrics`.
nlohmann::json StepLine(const StepReport& report, const StepMeasure& measure);

// A file of JSON objects, one a line, flushed line by line so that others can follow it.
class MetricsFile {
 public:
  // InvalidArgument when it cannot be written.
  static absl::StatusOr<MetricsFile> Create(const std::string& path);
  absl::Status Write(const nlohmann::json& line);

 private:
  explicit MetricsFile(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
};

}  // namespace strata
