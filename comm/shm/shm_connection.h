#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/asio_loop.h"
#include "comm/shm/memory_segments.h"

namespace strata {

// What two ranks of a node write to each other: fixed frames in the byte order of the machine. An
// inline frame is followed by its payload; a segment frame carries a descriptor.
enum class ShmKind : uint8_t {
  kShared = 1,  // a message that lies at `offset` of the sender's `segment`
  kInline,      // a message whose payload follows
  kAck,         // the message `sequence` has been received
  kReject,      // the message `sequence` did not fit its receive, see `reject`
  kSegment,     // announces `segment`, of `bytes`
};

enum class ShmReject : uint8_t { kNone, kBytes, kOrder };

struct ShmFrame {
  ShmKind kind = ShmKind::kAck;
  ShmReject reject = ShmReject::kNone;
  uint16_t unused = 0;
  uint32_t segment = 0;
  uint32_t operation = 0, message = 0, order = 0, unused2 = 0;
  uint64_t sequence = 0;  // counts the sender's messages
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(ShmFrame) == 48);

// An authenticated stream socket to one rank of this node. Frames queued in one task of the loop
// leave together. Everything in the loop.
class ShmConnection {
 public:
  static constexpr uint64_t kMaxInlineBytes = uint64_t{1} << 30;

  // Called from tasks of the loop, never from inside a call of this class. A status that is not OK
  // closes the connection.
  class Handler {
   public:
    virtual ~Handler() = default;
    // `source` has frame.bytes, and stays mapped as long as the connection lives.
    virtual absl::Status OnShared(const ShmFrame& frame, const std::byte* source) = 0;
    // Returns where the payload, of frame.bytes, is to go.
    virtual absl::StatusOr<std::byte*> OnInline(const ShmFrame& frame) = 0;
    virtual void OnInlineEnd() = 0;
    virtual absl::Status OnReply(const ShmFrame& frame) = 0;
    virtual void OnDrained() = 0;                 // all that was queued is written
    virtual void OnClosed(absl::Status why) = 0;  // once, and nothing after it
  };

  // Owns `fd`.
  ShmConnection(AsioLoop& loop, int fd, Handler& handler);
  ~ShmConnection();

  // `payload` is borrowed until the peer has replied; `fd` for good.
  void Queue(const ShmFrame& frame, std::span<const std::byte> payload = {}, int fd = -1);

  // Queues the announcement of a segment the first time.
  void Announce(const MemorySegments& segments, uint32_t segment);

  bool drained() const { return out_.empty(); }

  // Drops what is queued and neither reads nor writes any more; the socket stays open, so that the
  // peer does not take this end for dead.
  void Silence();

 private:
  struct Out {
    ShmFrame frame;
    std::span<const std::byte> payload;
    int fd = -1;
  };

  void WaitReadable();
  void Read();
  absl::Status Parse();
  absl::Status Take(const ShmFrame& frame);
  absl::Status TakeSegment(const ShmFrame& frame);
  void PostFlush();
  void Flush();
  void Closed(absl::Status why);

  AsioLoop& loop_;
  Handler& handler_;
  boost::asio::posix::stream_descriptor socket_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool silent_ = false;

  std::deque<Out> out_;
  size_t out_written_ = 0;  // of the first
  bool flush_posted_ = false;
  std::vector<bool> announced_;

  std::vector<std::byte> in_;
  size_t in_end_ = 0;
  std::byte* payload_target_ = nullptr;
  uint64_t payload_left_ = 0;
  std::deque<int> received_fds_;
  std::map<uint32_t, MappedSegment> mapped_;  // of the peer
};

}  // namespace strata
