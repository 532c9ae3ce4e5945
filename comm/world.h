#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/lane.h"
#include "comm/loop.h"
#include "comm/shared_memory.h"
#include "comm/topology.h"
#include "kernels/types.h"

namespace strata {

// How this process finds the others and talks to them.
struct WorldOptions {
  int launcher_rank = 0;  // as the launcher numbered it
  int size = 1;
  std::string rendezvous_host = "127.0.0.1";
  int rendezvous_port = 29400;
  std::string token;              // job token; the same on all ranks, never sent
  std::string transport = "ucx";  // between nodes: "ucx" or "tcp"
  std::string interface;          // between nodes; empty: the route to the rendezvous host
  std::string node;  // ranks with equal strings share a node; empty: boot id, host name and network
                     // namespace
  std::string
      fingerprint;  // must be equal on all ranks; a JSON object of strings, differences are named
  absl::Duration timeout = absl::Seconds(30);           // of rendezvous
  absl::Duration heartbeat_timeout = absl::Seconds(5);  // silence after which a rank is lost
  std::vector<int64_t> credit_bytes;                    // per level; empty: defaults
};

// Fills rank, size, host, port and token from the environment: torchrun's names, then Slurm's, Open
// MPI's, PMIx's, then STRATA_* set by hand; one process when there is none. InvalidArgument names
// the variable that is missing or malformed.
absl::StatusOr<WorldOptions> WorldOptionsFromEnvironment();

// The ranks of one job and the way to them: rendezvous, canonical numbering (nodes by their lowest
// launcher rank, then launcher rank within the node), transports, two lanes, membership by
// heartbeat. Owns three threads: control loop, gather lane, reduce lane.
class World {
 public:
  // Blocks until all ranks are there, at most `timeout`. The error names the ranks that are absent,
  // or what differs between whom.
  static absl::StatusOr<std::unique_ptr<World>> Join(const WorldOptions& options);
  virtual ~World() = default;

  virtual const Topology& topology() const = 0;
  virtual Rank self() const = 0;
  virtual const std::string& host(Rank rank) const = 0;
  virtual Loop& control() = 0;
  virtual SharedMemory& shared_memory() = 0;
  virtual Lane gather() = 0;
  virtual Lane reduce() = 0;

  // Calls `lost` once, on the control loop, with the first verdict of membership, naming rank
  // and host: Unavailable, or the code of a caller's error that a rank has failed with. Both lanes
  // have been aborted with it by then. Not after Leave has returned.
  virtual void OnLoss(absl::AnyInvocable<void(absl::Status) &&> lost) = 0;

  // Tells the others that this rank has finished and waits until all have; or that it fails with
  // `why`, which they then report, and waits until they know. Blocks at most `heartbeat_timeout`;
  // the caller has ended what it started on the lanes. Not in a loop. The verdict of membership, if
  // there is one with another reason than `why`. Once. Lanes stay usable after an OK, until the
  // destructor.
  virtual absl::Status Leave(absl::Status why) = 0;

  // Ends what is on the lanes, now and later, with `why`; after Leave. When this returns, every
  // Done of before has been called and no transport uses memory that was lent to it. Not in a loop.
  virtual void CloseLanes(absl::Status why) = 0;
};

}  // namespace strata
