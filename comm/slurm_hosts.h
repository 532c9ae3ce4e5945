#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace strata {

// The first host of a Slurm node list: "node007" of "node[007-009,12],other". InvalidArgument
// unless the list begins with a host.
absl::StatusOr<std::string> FirstSlurmHost(const std::string& list);

}  // namespace strata
