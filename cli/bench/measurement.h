#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "cli/bench/options.h"
#include "comm/topology.h"

namespace strata {

// What one child group of the outermost level (a node) moved per operation, by one count.
struct NodeBytes {
  double sent = 0;
  double received = 0;
};

// One operation of one size, measured. The same on all ranks.
struct Measurement {
  BenchKind kind = BenchKind::kAllGather;
  int64_t bytes = 0;
  std::vector<double> seconds;       // per operation, mean over the ranks
  std::vector<NodeBytes> wire;       // per node: payload that the transports completed
  std::vector<NodeBytes> interface;  // per node: counted by the kernel; empty if not known
  double formula_bytes = 0;          // FormulaBytes
  int ranks = 0;
  bool verified = false;
};

// Figures of a measurement. Rates in bytes per second; `bound` and `percent_of_bound` are 0 where
// the link's rate is not known or nothing crosses it.
struct Figures {
  double min = 0, median = 0, p99 = 0, max = 0;  // seconds
  double algbw = 0, busbw = 0;                   // of the median
  double bound = 0;                              // seconds
  double percent_of_bound = 0;
  double wire_bytes = 0;       // of the busiest node, in its busier direction
  double interface_bytes = 0;  // likewise; 0 if not known
};

// Of a full Ethernet frame of 1514 bytes, TCP carries 1448.
inline constexpr double kPayloadShare = 1448.0 / 1514.0;

// `rate` is of a node's link in bits per second; 0: not known.
Figures FiguresOf(const Measurement& measurement, int64_t rate);

// OK when the figures are what the options ask for; else FailedPrecondition with the first that is
// not.
absl::Status CheckFigures(const Measurement& measurement, const Figures& figures,
                          const BenchOptions& options);

}  // namespace strata
