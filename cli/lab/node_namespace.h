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

  // `root`: what PrepareLabMounts returned.
  static absl::StatusOr<NodeNamespace> Current(const std::string& root);

  // Moves the calling process into it. The working directory becomes "/".
  absl::Status Enter() const;

  int network() const { return network_; }

 private:
  // Never closed: they are needed until the lab's process ends.
  int network_ = -1, uts_ = -1, ipc_ = -1, mount_ = -1;
  std::string root_;  // of the file system, in the mount namespace; "/" unless in a chroot
};

// Makes the mount namespace of the calling process, which must be its own, fit to make nodes in:
// nothing propagates outside, own /proc, own /sys, scratch files in an own /dev/shm. Returns the
// path of the process's root in that namespace: "/" unless in a chroot.
absl::StatusOr<std::string> PrepareLabMounts();

}  // namespace strata
