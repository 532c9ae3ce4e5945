#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/transport.h"
#include "kernels/types.h"

namespace strata {

// What a peer keeps of messages that it has not posted a receive for, per lane, in blocks.
inline constexpr int64_t kStoreBytes = 4 << 20;
inline constexpr int64_t kStoreBlockBytes = 16 * 1024;
constexpr int64_t StoreBlocks(int64_t bytes) {
  return bytes <= kStoreBlockBytes ? 1 : (bytes + kStoreBlockBytes - 1) / kStoreBlockBytes;
}

// One message to send. The view is lent until `done` is called.
struct OutMessage {
  Tag tag;  // as OnWire
  std::span<const std::byte> view;
  Done done;
};

// [Note: Ready] Each posted receive is announced to its sender, over TCP by a kReady frame. A
// message whose receive is known to be posted may go at once; others may go early as long as they
// fit the peer's store, whose free blocks the sender counts: the block count of an early message is
// taken at its start and given back by its announcement. What does not fit is held, and does not
// hold up messages that the peer waits for: a rank that runs ahead can neither fill a slower one's
// memory nor block what it needs to catch up.

// The messages to one peer, in the order they may go. Pure: no socket, no loop.
class Outbox {
 public:
  explicit Outbox(int64_t store_blocks) : free_blocks_(store_blocks) {}

  void Push(OutMessage message);

  // The peer has posted a receive. FailedPrecondition when it belongs to another operation than the
  // message it meets (the order differs), DataLoss when the peer announces absurdly much.
  absl::Status OnReady(Tag tag);

  // The next message that may go.
  std::optional<OutMessage> Pop();

  // Everything not popped.
  std::vector<OutMessage> TakeAll();

  bool empty() const { return ready_.empty() && held_.empty(); }

 private:
  struct Early {
    uint32_t order = 0;
    int64_t blocks = 0;
  };

  void AdmitHeld();

  int64_t free_blocks_;
  std::deque<OutMessage> ready_;  // may go, oldest first
  std::list<OutMessage> held_;    // wait for an announcement or for free blocks
  std::multimap<uint64_t, uint32_t>
      announced_;                         // match key → order: receives without a message yet
  std::multimap<uint64_t, Early> early_;  // match key → messages not announced yet
};

}  // namespace strata
