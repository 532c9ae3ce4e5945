#pragma once

#include <string>

#include "absl/status/status.h"
#include "runtime/config/train_config.h"

namespace strata {

struct TrainOptions {
  TrainConfig config;
  std::string metrics;  // file of rank 0, empty: none
  std::string trace;    // file of this rank, empty: none
};

// Trains the configured model on this process's rank and the others of its job: `strata train`, by
// the public API only. Rank 0 shows progress and writes the metrics. Blocks until done.
absl::Status Train(const TrainOptions& options);

}  // namespace strata
