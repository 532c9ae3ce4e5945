#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/asio_loop.h"
#include "comm/control/control_connection.h"

namespace strata {

// [Note: Verdict]
// Rank 0 alone says why a world ends: because a rank was lost (its connection closed, or it was
// silent for too long) or has failed (it said so). The first reason is the verdict; rank 0 sends it
// to all, waits until all have seen it (a second at most), and only then lets anybody go. So no
// rank sees another one leave before it knows why, and all ranks report the same reason. When rank
// 0 itself is lost, each rank finds out by itself.
//
// Ranks that have finished say goodbye and stay until all have: the end of one is no loss to
// others.

// Who lives, as one rank knows it. Rank 0 is the hub of the star, the others are spokes. In the
// loop, which other work never delays.
class Membership {
 public:
  struct Options {
    int self = 0;
    std::vector<std::string> names;  // of all ranks: "rank 3 (host b)"
    absl::Duration heartbeat_timeout = absl::Seconds(5);
    // Called once, in a task of its own, unless this rank leaves before.
    absl::AnyInvocable<void(absl::Status) &&> on_verdict;
  };
  using Shares = absl::AnyInvocable<void(std::vector<std::string>) &&>;

  // `connections` by rank on rank 0 (its own is null), the one to rank 0 elsewhere.
  static std::unique_ptr<Membership> Create(
      AsioLoop& loop, std::vector<std::unique_ptr<ControlConnection>> connections, Options options);
  virtual ~Membership() = default;

  // Gives every rank the strings of all ranks, in rank order. One at a time, the same calls on all
  // ranks. `done` is not called when a verdict comes before.
  virtual void Exchange(std::string mine, Shares done) = 0;

  // `why` OK: says goodbye and waits until all have. Otherwise the others are told, get `why` as
  // their verdict, and this waits until they have seen it. Either way at most `heartbeat_timeout`.
  // `done` gets OK, or the verdict if there is one with another reason.
  virtual void Leave(absl::Status why, Done done) = 0;
};

}  // namespace strata
