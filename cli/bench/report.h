#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/bench/measurement.h"
#include "cli/bench/options.h"
#include "cli/output_file.h"
#include "comm/world.h"
#include "nlohmann/json.hpp"

namespace strata {

inline constexpr int kBenchSchema = 1;

// One result of `bench --json`. Names: docs/benchmarking.md.
nlohmann::json ResultJson(const Measurement& measurement, const BenchOptions& options,
                          const std::string& algorithm);

// Lines of a table, without line ends.
std::string TableHeader();
std::string TableRow(const Measurement& measurement, const BenchOptions& options);
std::string CsvHeader();
std::string CsvRow(const Measurement& measurement, const BenchOptions& options);

// What rank 0 tells: a table on stdout, row by row, and the files that were asked for.
class Report {
 public:
  Report(const BenchOptions& options, World& world, std::string interface);

  // InvalidArgument when a file cannot be written.
  absl::Status Open();
  void Begin() const;
  void Add(const Measurement& measurement);
  // `status`: how the benchmark ended; what was measured until then is told all the same. Not OK
  // when one of the files could not be written.
  absl::Status End(const absl::Status& status);

 private:
  nlohmann::json Environment() const;

  const BenchOptions& options_;
  World& world_;
  const std::string interface_;
  const std::string algorithm_;
  nlohmann::json results_ = nlohmann::json::array();
  std::optional<OutputFile> json_, csv_;
  absl::Status written_;  // the first error of a file
};

}  // namespace strata
