#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/inbox.h"

namespace strata {

// Who is told what a FrameReader reads.
class FrameSink {
 public:
  virtual void OnReceived(EndedReceive ended) = 0;
  virtual absl::Status OnReady(Tag tag) = 0;
  // The peer gives up.
  virtual absl::Status OnFail(const FrameHeader& header) = 0;

 protected:
  ~FrameSink() = default;
};

// Cuts the incoming byte stream of one connection into frames. Payload is read straight into the
// receive it belongs to, or into the store of the inbox. Pure: the caller does the reading.
class FrameReader {
 public:
  FrameReader(Inbox& inbox, FrameSink& sink, int64_t max_message_bytes);

  // Where the next bytes go, in order. Valid until Take.
  std::span<const iovec> Targets();

  // `count` bytes have been read into Targets. Not OK: the stream is worthless from here on.
  absl::Status Take(size_t count);

  // Of the frame that was read last.
  Tag last_tag() const { return last_tag_; }

 private:
  absl::Status OnHeader(const FrameHeader& header);
  void FillFromStaging();
  void SkipFilled();
  void EndMessage();

  Inbox& inbox_;
  FrameSink& sink_;
  const int64_t max_message_bytes_;
  std::vector<std::byte> staging_;  // headers, and payload that came along with them
  size_t staging_begin_ = 0, staging_end_ = 0;
  bool in_message_ = false;
  std::span<const std::span<std::byte>> parts_;  // where the payload goes
  size_t part_ = 0, part_offset_ = 0;            // how far it has come
  Tag last_tag_;
  std::array<iovec, 33> targets_;
};

}  // namespace strata
