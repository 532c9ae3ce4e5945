#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata {

// One link of the lab: between a node and the bridge.
struct LinkOptions {
  int64_t bits_per_second = 0;
  int mtu = 1500;
};

// Bytes and packets of one node as the interface counted them, headers included.
struct LinkCounters {
  int64_t tx_bytes = 0, tx_packets = 0, rx_bytes = 0, rx_packets = 0;  // in the node's eyes
};

// The name of each node's interface to the others, within that node.
inline constexpr char kNodeInterface[] = "e0";

std::string NodeName(int node);     // "node0"
std::string NodeAddress(int node);  // "10.83.0.1" for node 0

// Makes the bridge in the network namespace that the calling process is in.
absl::Status MakeBridge();

// Called inside node's network namespace: loopback, e0 with its address and shaped sending, and the
// other end of its link, which is put into the network namespace open as `bridge_namespace`.
absl::Status MakeNodeLink(int node, const LinkOptions& link, int bridge_namespace);

// Called in the bridge's network namespace: plugs the links in and shapes what nodes receive.
absl::Status PlugIn(int nodes, const LinkOptions& link);

// Reads the counters of all links; /sys must be of the bridge's network namespace.
absl::StatusOr<std::vector<LinkCounters>> ReadCounters(int nodes);

}  // namespace strata
