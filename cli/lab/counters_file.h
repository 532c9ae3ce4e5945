#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// As JSON; see docs/lab.md for the names.
std::string CountersJson(const CountersReport& report);

}  // namespace strata
