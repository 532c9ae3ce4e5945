#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/optimizer_options.h"

namespace strata {

struct StepInput {
  double loss = 0;  // of this rank, summed over its micro-steps; the report has the sum over ranks
  int64_t tokens = 0;                           // of this rank
  std::vector<OptimizerOptions::Group> groups;  // replace the optimizer's from this step on
};

// One step, in one rank's eyes. Bytes belong to the step that issued them, so a report is final
// when the step's publish is done: EndStep returns the report of the step before.
struct StepReport {
  int64_t step = -1;  // from 1; 0 when there is none yet
  double loss = 0;    // sum over ranks in rank order, fp64
  int64_t tokens = 0;
  double norm_before_clip = 0, norm_after_clip = 0;
  bool skipped = false;  // a gradient was not finite on some rank: no rank updated

  struct PerLevel {
    std::string name;
    int64_t sent_bytes = 0, received_bytes = 0;            // of this rank, unit traffic
    int64_t node_sent_bytes = 0, node_received_bytes = 0;  // the same, summed over its node's ranks
    int64_t planned_sent_bytes = 0, planned_received_bytes = 0;  // what its plans say
    absl::Duration exposed;  // application blocked while this level was the unfinished one
    absl::Duration busy;
    double overlap = 1;  // 1 - exposed / busy
  };
  std::vector<PerLevel> levels;
  int64_t exchange_sent_bytes = 0;  // boundary records, not in `levels`

  absl::Duration duration;  // from one EndStep's return to the next
  absl::Duration compute;   // of that, application not blocked in the runtime
  int64_t peak_unit_bytes = 0;
  int64_t missed_prefetches = 0;
};

// Bytes of one rank, predicted when sealed.
struct MemoryReport {
  int64_t parameters = 0;  // shards in the compute dtype
  int64_t gradients = 0;   // accumulators
  int64_t optimizer = 0;   // master and moments
  int64_t arena = 0;       // the pool: gathered units, gradient buffers
  int64_t scratch = 0;     // of plans
  int64_t total = 0;
};

}  // namespace strata
