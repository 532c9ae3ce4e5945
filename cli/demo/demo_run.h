#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace strata {

// What the demo compares, and where.
struct DemoOptions {
  std::string text;    // file to train on
  std::string folder;  // for metrics, timelines and logs; made if it is not there
  std::string link = "100mbit";
  int nodes = 2;
  int ranks_per_node = 2;
  int steps = 14;
};

// Trains the demo's model in the emulated cluster under one layout, by this program's own `lab run`
// and `train`, with a progress bar. Returns the run's row: see docs/demo.md for its keys.
absl::StatusOr<nlohmann::json> RunDemo(const DemoOptions& options, const std::string& layout);

}  // namespace strata
