#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/asio_loop.h"
#include "comm/control/control_connection.h"
#include "comm/control/messages.h"

namespace strata {

struct RendezvousOptions {
  ControlHello self;
  std::string host = "127.0.0.1";
  int port = 0;
  std::string token;
  absl::Duration timeout = absl::Seconds(30);
};

// A world that has met: who is in it, by launcher rank, and the star's connections. On launcher
// rank 0, connections[r] leads to launcher rank r and connections[0] is null; elsewhere there is
// one.
struct Gathering {
  std::vector<ControlHello> ranks;  // without fingerprints, which are equal
  std::vector<std::unique_ptr<ControlConnection>> connections;
};

// Brings all ranks of a job together at launcher rank 0, which listens on `host`:`port` alone.
// Blocks, at most `timeout` and a little; not in the loop. Strangers and ranks with another token
// are turned away and named in the log; the wait for the right ones goes on. FailedPrecondition:
// the port is used, the token, world size or fingerprint differs, two processes claim one rank.
// DeadlineExceeded: names the ranks that are absent. All ranks that are connected get the same
// message. Connections are to be destroyed in the loop.
absl::StatusOr<Gathering> MeetRanks(AsioLoop& loop, const RendezvousOptions& options);

// "launcher rank 3 (host b)".
std::string LauncherName(const ControlHello& rank);

// OK when the fingerprints of all ranks are equal. FailedPrecondition names every key that differs,
// with its values and the ranks that have them. `ranks` in the order of launcher ranks.
absl::Status CompareFingerprints(const std::vector<ControlHello>& ranks);

}  // namespace strata
