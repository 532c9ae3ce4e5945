#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/tcp/frame.h"
#include "comm/transport.h"
#include "kernels/types.h"

namespace strata {

// A posted receive. The view is lent until `done` is called.
struct PostedReceive {
  Tag tag;  // as OnWire
  std::span<std::byte> view;
  Done done;
};

// A receive whose message has arrived: OK, or DataLoss when their sizes differ.
struct EndedReceive {
  PostedReceive receive;
  absl::Status status;
};

// The messages from one peer: those that are waited for, and a store of fixed size for those that
// nobody waits for yet (see [Note: Ready] in comm/outbox.h). Pure: no socket, no loop.
//
// An error that a method returns (FailedPrecondition: out of step; DataLoss: the peer overran the
// store) ends the traffic with this peer: what is pending stays pending until TakeAll.
class Inbox {
 public:
  explicit Inbox(int64_t store_blocks);

  // Returns the receive if its message had arrived, else keeps it.
  absl::StatusOr<std::optional<EndedReceive>> Post(PostedReceive receive);

  // A message begins to arrive. The payload goes to the returned parts, in order; they stay valid
  // until End. One at a time.
  absl::StatusOr<std::span<const std::span<std::byte>>> Begin(const FrameHeader& header);

  // All of its payload has been written. Returns the receive that it ends, if it was posted.
  std::optional<EndedReceive> End();

  // All receives that have not ended.
  std::vector<PostedReceive> TakeAll();

  // Forgets the messages in the store.
  void DropStored() { stored_.clear(); }

  bool waiting() const { return !posted_.empty() || claimant_ || receiving_; }

 private:
  struct Stored {
    Tag tag;
    int64_t bytes = 0;
    std::vector<int32_t> blocks;
  };

  std::span<std::byte> Block(int32_t index) const;
  EndedReceive TakeStored(const Stored& stored, PostedReceive receive);
  void Ignore(int64_t bytes);

  std::unique_ptr<std::byte[]> store_;
  std::vector<int32_t> free_blocks_;
  std::multimap<uint64_t, PostedReceive> posted_;  // by match key, oldest first
  std::multimap<uint64_t, Stored> stored_;         // complete
  std::optional<PostedReceive> receiving_;         // posted, and its payload is arriving
  int64_t receiving_bytes_ = 0;                    // of that payload
  std::optional<Stored> storing_;                  // not posted when its payload began to arrive
  std::optional<PostedReceive> claimant_;          // posted since; ends with storing_
  std::vector<std::span<std::byte>> parts_;
  std::vector<std::byte> ignored_;  // takes payload that fits nowhere
};

}  // namespace strata
