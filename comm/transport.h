#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/types.h"

namespace strata {

// Names one message between two ranks on one lane. `operation` and `message` select the receive;
// `order` is a running hash of the operations issued so far on the lane, compared on arrival: a
// difference means that the ranks are out of step, which ends both with FailedPrecondition.
// Transports carry 20 bits of operation, 20 of message and 12 of order; operations wrap.
struct Tag {
  uint32_t operation = 0;
  uint32_t message = 0;
  uint32_t order = 0;
};

// Moves bytes between this rank and its peers on one level, for one lane. All calls and all Dones
// are in the lane's loop. Messages match by (peer, operation, message); a receive may be posted
// before or after its message arrives, and sizes must be equal (else DataLoss).
//
// Done reports Unavailable when the peer is lost (`peer 3 (host b): connection reset`). A lost peer
// fails what is pending with it and everything later with it; other peers go on.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) = 0;
  virtual void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) = 0;

  // Everything pending and everything later ends with `why`. The first reason wins.
  virtual void Abort(absl::Status why) = 0;

  // Waits for what is pending, then lets go of connections. No Send or Recv afterwards.
  virtual void Close(Done done) = 0;

  // Payload bytes of completed sends and receives. In the loop only.
  struct Counters {
    int64_t sent_bytes = 0;
    int64_t received_bytes = 0;
  };
  virtual Counters counters() const = 0;
};

}  // namespace strata
