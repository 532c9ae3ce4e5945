#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "comm/layout.h"
#include "comm/topology.h"
#include "runtime/config/train_config.h"

namespace strata {

// Bytes that the ranks of one node at least need together: the optimizer's state on its shards, one
// unit at a time as it is made, and what the forward pass keeps. Pure.
double LeastBytesOfNode(const TrainConfig& config, const Layout& layout, const Topology& topology,
                        Rank rank);

// ResourceExhausted where that is more than `available` bytes: says both and what to change.
absl::Status CheckMemory(const TrainConfig& config, const Layout& layout, const Topology& topology,
                         Rank rank, int64_t available);

}  // namespace strata
