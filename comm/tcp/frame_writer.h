#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "comm/outbox.h"
#include "comm/tcp/frame.h"
#include "kernels/types.h"

namespace strata {

// Puts the outgoing frames of one connection in the order of the wire: frames of our own first,
// then messages as the outbox lets them go. Payload is written straight from the lent view. Pure:
// the caller does the writing.
class FrameWriter {
 public:
  explicit FrameWriter(Outbox& outbox) : outbox_(outbox) {}

  // A frame of our own, without payload.
  void Push(const FrameHeader& header);

  // The next bytes to write, in order; none when there is nothing to do. Valid until Advance.
  std::span<const iovec> Sources();

  struct Sent {
    int64_t bytes = 0;
    Done done;
  };
  // `count` bytes of Sources have been written. Returns the messages that this ends.
  std::vector<Sent> Advance(size_t count);

  // Drops every frame and returns the messages among them. What is left of a frame that is half
  // written is copied and stays, so that a last frame can be pushed behind it.
  std::vector<Done> GiveUp();

  // Nothing is partly written or waiting here (the outbox may hold more).
  bool empty() const { return frames_.empty() && control_.empty(); }

  // A message is on its way.
  bool has_message() const;

 private:
  struct Frame {
    FrameHeaderBytes header;
    std::span<const std::byte> view;
    Done done;  // null for a frame of our own
    size_t size() const { return header.size() + view.size(); }
  };

  void Refill();

  Outbox& outbox_;
  std::deque<Frame> control_;    // of our own, not yet among `frames_`
  std::deque<Frame> frames_;     // in the order of the wire
  size_t offset_ = 0;            // bytes of the first frame that have been written
  std::vector<std::byte> rest_;  // backs the view of a frame that was given up half written
  std::array<iovec, 32> sources_;
};

}  // namespace strata
