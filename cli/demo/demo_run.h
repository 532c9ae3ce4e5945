#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace strata {

// What the demo compares, and where.
struct DemoOptions {
  std::string text;    // file to train on
  std::string folder;  // for metrics, timelines and logs
  std::string link = "100mbit";
  int nodes = 2;
  int ranks_per_node = 2;
  int steps = 14;
};

// InvalidArgument when text or link are of no use.
absl::Status CheckDemo(const DemoOptions& options);

// Makes the folder and keeps other demos out of it until this process ends. FailedPrecondition when
// one is in it.
absl::Status ClaimFolder(const std::string& folder);

// Trains the demo's model in the emulated cluster under one layout, by this program's own `lab run`
// and `train`, with a progress bar, in a claimed folder. Returns the run's row of --json.
absl::StatusOr<nlohmann::json> RunDemo(const DemoOptions& options, const std::string& layout);

}  // namespace strata
