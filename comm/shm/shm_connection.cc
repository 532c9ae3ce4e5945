#include "comm/shm/shm_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr int kMaxFds = 8;
constexpr uint32_t kMaxSegments = 1024;

absl::Status BadFrame(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("malformed frame: ", what));
}

// One recvmsg; descriptors that came along are appended to `fds`. -1 with EBADMSG when there were
// more of them than any frame carries.
ssize_t Receive(int socket, std::span<std::byte> into, std::deque<int>& fds) {
  iovec part{into.data(), into.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return got;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.push_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0 || fds.size() > kMaxFds) {
    errno = EBADMSG;
    return -1;
  }
  return got;
}

ssize_t SendParts(int socket, std::span<iovec> parts, int fd) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ShmConnection::ShmConnection(AsioLoop& loop, int fd, Handler& handler)
    : loop_(loop), handler_(handler), socket_(loop.context(), fd), in_(kReadBytes) {
  WaitReadable();
}

ShmConnection::~ShmConnection() {
  *alive_ = false;
  for (const int fd : received_fds_) close(fd);
}

void ShmConnection::Queue(const ShmFrame& frame, std::span<const std::byte> payload, int fd) {
  if (silent_) return;
  out_.push_back({frame, payload, fd});
  PostFlush();
}

void ShmConnection::Announce(const MemorySegments& segments, uint32_t index) {
  if (announced_.size() <= index) announced_.resize(index + 1);
  if (announced_[index]) return;
  announced_[index] = true;
  const SharedSegment segment = segments.segment(index);
  Queue({.kind = ShmKind::kSegment, .segment = index, .bytes = segment.bytes.size()}, {},
        segment.fd);
}

void ShmConnection::Silence() {
  silent_ = true;
  out_.clear();
  out_written_ = 0;
  socket_.cancel();
}

void ShmConnection::PostFlush() {
  if (flush_posted_) return;
  flush_posted_ = true;
  loop_.Post([this, alive = alive_] {
    if (!*alive) return;
    flush_posted_ = false;
    Flush();
  });
}

void ShmConnection::Flush() {
  while (!silent_ && !out_.empty()) {
    // As many items as fit one call; a descriptor goes with the first byte of its frame, alone.
    iovec parts[64];
    size_t count = 0;
    size_t skip = out_written_;
    int fd = -1;
    for (Out& item : out_) {
      if (item.fd >= 0 && count > 0) break;
      if (item.fd >= 0 && skip == 0) fd = item.fd;
      const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(&item.frame, 1)),
                                                   item.payload};
      for (const std::span<const std::byte> piece : pieces) {
        const size_t skipped = std::min(skip, piece.size());
        skip -= skipped;
        if (skipped == piece.size()) continue;
        parts[count++] = {const_cast<std::byte*>(piece.data()) + skipped, piece.size() - skipped};
      }
      if (item.fd >= 0 || count + 2 > std::size(parts)) break;
    }
    const ssize_t wrote = SendParts(socket_.native_handle(), {parts, count}, fd);
    if (wrote < 0) {
      if (WouldBlock(errno)) {
        // The wait stands for the posted flush: frames queued meanwhile go when it ends.
        flush_posted_ = true;
        socket_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                           [this, alive = alive_](boost::system::error_code error) {
                             if (!*alive || error) return;
                             flush_posted_ = false;
                             Flush();
                           });
      } else {
        // The reader finds out why, after what the peer wrote before it went.
        out_.clear();
        out_written_ = 0;
      }
      return;
    }
    out_written_ += static_cast<size_t>(wrote);
    while (!out_.empty() && out_written_ >= sizeof(ShmFrame) + out_.front().payload.size()) {
      out_written_ -= sizeof(ShmFrame) + out_.front().payload.size();
      out_.pop_front();
    }
  }
  if (!silent_) handler_.OnDrained();
}

void ShmConnection::WaitReadable() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this, alive = alive_](boost::system::error_code error) {
                       if (!*alive || error || silent_) return;
                       Read();
                     });
}

void ShmConnection::Read() {
  // A payload goes where it belongs without a copy of ours, once what was buffered is used up.
  const bool direct = payload_left_ > 0;
  const std::span<std::byte> into =
      direct ? std::span(payload_target_, payload_left_) : std::span(in_).subspan(in_end_);
  const ssize_t got = Receive(socket_.native_handle(), into, received_fds_);
  if (got < 0 && WouldBlock(errno)) return WaitReadable();
  if (got < 0 && errno == EBADMSG) return Closed(BadFrame("too many descriptors"));
  if (got <= 0) return Closed(absl::UnavailableError("connection closed"));
  if (direct) {
    payload_target_ += got;
    payload_left_ -= static_cast<uint64_t>(got);
    if (payload_left_ == 0) handler_.OnInlineEnd();
  } else {
    in_end_ += static_cast<size_t>(got);
    const absl::Status parsed = Parse();
    if (!parsed.ok()) return Closed(parsed);
  }
  if (!silent_) WaitReadable();
}

absl::Status ShmConnection::Parse() {
  size_t begin = 0;
  while (in_end_ - begin >= sizeof(ShmFrame) && !silent_) {
    ShmFrame frame;
    std::memcpy(&frame, in_.data() + begin, sizeof(frame));
    begin += sizeof(frame);
    STRATA_RETURN_IF_ERROR(Take(frame));
    if (frame.kind != ShmKind::kInline) continue;
    const size_t here = std::min<size_t>(payload_left_, in_end_ - begin);
    if (here > 0) std::memcpy(payload_target_, in_.data() + begin, here);
    begin += here;
    payload_target_ += here;
    payload_left_ -= here;
    if (payload_left_ == 0) handler_.OnInlineEnd();
  }
  std::memmove(in_.data(), in_.data() + begin, in_end_ - begin);
  in_end_ -= begin;
  return absl::OkStatus();
}

absl::Status ShmConnection::Take(const ShmFrame& frame) {
  switch (frame.kind) {
    case ShmKind::kShared: {
      const auto found = mapped_.find(frame.segment);
      if (found == mapped_.end()) return BadFrame("message in a segment that was not announced");
      const std::span<const std::byte> segment = found->second.bytes();
      if (frame.offset > segment.size() || frame.bytes > segment.size() - frame.offset) {
        return BadFrame(absl::StrCat("bytes [", frame.offset, ", +", frame.bytes,
                                     ") of a segment of ", segment.size(), " bytes"));
      }
      return handler_.OnShared(frame, segment.data() + frame.offset);
    }
    case ShmKind::kInline: {
      if (frame.bytes > kMaxInlineBytes) {
        return BadFrame(absl::StrCat("inline message of ", frame.bytes, " bytes"));
      }
      STRATA_ASSIGN_OR_RETURN(payload_target_, handler_.OnInline(frame));
      payload_left_ = frame.bytes;
      return absl::OkStatus();
    }
    case ShmKind::kAck:
    case ShmKind::kReject:
      return handler_.OnReply(frame);
    case ShmKind::kSegment:
      return TakeSegment(frame);
  }
  return BadFrame(absl::StrCat("kind ", static_cast<int>(frame.kind)));
}

absl::Status ShmConnection::TakeSegment(const ShmFrame& frame) {
  if (received_fds_.empty()) return BadFrame("segment without descriptor");
  if (frame.segment >= kMaxSegments) return BadFrame("too many segments");
  const int fd = received_fds_.front();
  received_fds_.pop_front();
  STRATA_ASSIGN_OR_RETURN(MappedSegment mapped, MappedSegment::Map(fd, frame.bytes));
  if (!mapped_.emplace(frame.segment, std::move(mapped)).second) {
    return BadFrame("segment announced twice");
  }
  return absl::OkStatus();
}

void ShmConnection::Closed(absl::Status why) {
  Silence();
  handler_.OnClosed(std::move(why));
}

}  // namespace strata
