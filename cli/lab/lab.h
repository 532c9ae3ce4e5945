#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/placement.h"
#include "cli/supervisor.h"

namespace strata {

struct LabOptions {
  int nodes = 0;
  int ranks_per_node = 0;
  std::string link;  // a rate; empty: no network of its own
  int mtu = 1500;
  Placement placement = Placement::kBlock;
  Label label = Label::kOthers;
  absl::Duration grace = absl::Seconds(8);
  std::string counters;  // file for the interfaces' counters; empty: none
};

// InvalidArgument or NotFound for what cannot be run; names the option.
absl::Status CheckLab(const LabOptions& options, const std::vector<std::string>& program);

// Runs `program` once per rank on an emulated cluster. Returns the exit code of the run; an error
// says why there was none. Nothing of the cluster outlives the calling process, whatever ends it.
absl::StatusOr<int> RunLab(const LabOptions& options, const std::vector<std::string>& program);

// The same ranks as plain processes on loopback: for machines where nobody may make namespaces.
absl::StatusOr<int> RunOnLoopback(const LabOptions& options,
                                  const std::vector<std::string>& program);

}  // namespace strata
