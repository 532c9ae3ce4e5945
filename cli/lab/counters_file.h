#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/lab/network.h"

namespace strata {

// What the interfaces of a lab counted from the start to the end of a run, one entry per node.
struct CountersReport {
  int64_t bits_per_second = 0;
  int mtu = 0;
  absl::Duration duration;
  std::vector<LinkCounters> before, after;
};

// Writes it as JSON to an open file; see docs/lab.md for the names.
absl::Status WriteCounters(int file, const CountersReport& report);

}  // namespace strata
