#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/lab/network.h"

namespace strata {

// The namespaces of one node (network, UTS, IPC, mount), held open by file descriptors: unnamed, so
// that they vanish with the last process in them. Or, from Current, those of the calling process.
class NodeNamespace {
 public:
  // Makes a node of a lab of `nodes` and leaves the calling process where it was, in `lab`. The
  // process must be alone with one thread, and process 1 of its PID namespace.
  static absl::StatusOr<NodeNamespace> Make(int node, int nodes, const LinkOptions& link,
                                            const NodeNamespace& lab);

  static absl::StatusOr<NodeNamespace> Current();

  // Moves the calling process into it. The working directory becomes "/".
  absl::Status Enter() const;

  int network() const { return network_; }

 private:
  // Never closed: they are needed until the lab's process ends.
  int network_ = -1, uts_ = -1, ipc_ = -1, mount_ = -1;
};

// Gives the calling process a mount namespace fit to make nodes in: nothing propagates outside, own
// /proc, own /sys, scratch files in an own /dev/shm.
absl::Status PrepareLabMounts();

}  // namespace strata
