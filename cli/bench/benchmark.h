#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/bench/measurement.h"
#include "cli/bench/operation.h"
#include "cli/bench/options.h"
#include "cli/bench/records.h"
#include "cli/bench/repeater.h"
#include "comm/world.h"

namespace strata {

// Measures the sizes of one operation, one after the other. For each: one operation with data that
// is checked, a warm-up, then operations back to back, so that what a link lets through at once
// after a pause does not count. Destroyed after the world's lanes are closed.
class Benchmark {
 public:
  // `interface` is the one between nodes, whose counters are read; empty: not known.
  static absl::StatusOr<std::unique_ptr<Benchmark>> Create(World& world,
                                                           const BenchOptions& options,
                                                           std::string interface);

  // Blocks until all sizes are measured; calls `measured` after each. Cancelled when interrupted;
  // an error names the size and, past the deadline, the peers without progress.
  absl::Status Run(const std::function<void(const Measurement&)>& measured);

 private:
  using Records2d = std::vector<std::vector<double>>;  // [rank][number]

  Benchmark(World& world, const BenchOptions& options, std::string interface)
      : world_(world), options_(options), interface_(std::move(interface)) {}

  absl::StatusOr<Measurement> Measure(const Operation& operation);
  absl::Status CheckData(const Operation& operation, Repeater& repeater);
  absl::StatusOr<int64_t> WarmUp(Repeater& repeater, const std::string& what);
  absl::Status CheckCounters(const Operation& operation, const Repeater::Result& result) const;
  // This node's interface counters, and whether this rank tells them.
  absl::StatusOr<std::vector<double>> ReadInterface() const;
  void AddNodeBytes(const Records2d& records, Measurement& measurement) const;

  World& world_;
  const BenchOptions& options_;
  const std::string interface_;
  std::unique_ptr<Records> records_;
  std::vector<Operation> operations_;
  OperationMemory memory_;
  std::vector<std::unique_ptr<Repeater>> repeaters_;  // kept: lanes may refer to them
  uint32_t next_number_ = 0;
};

}  // namespace strata
