#include "comm/tcp/tcp_connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/loop_calls.h"
#include "kernels/status.h"

namespace strata {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// Work per turn of the loop, so that one busy peer does not starve the others.
constexpr int kReadsPerTurn = 8, kWritesPerTurn = 8;

std::string Reason(int error_number) {
  if (error_number == 0) return "connection closed";
  if (error_number == ECONNRESET || error_number == EPIPE) return "connection reset";
  return strerror(error_number);
}

bool WouldBlock(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK; }

}  // namespace

TcpConnection::TcpConnection(AsioLoop& loop, tcp::socket socket, std::string peer,
                             const TcpOptions& options)
    : loop_(loop),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      options_(options),
      inbox_(options.store_bytes / kStoreBlockBytes),
      outbox_(options.store_bytes / kStoreBlockBytes),
      reader_(inbox_, *this, options.max_message_bytes),
      writer_(outbox_) {}

void TcpConnection::Start() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  const int bytes = options_.not_sent_bytes;
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
  WaitReadable();
}

void TcpConnection::Send(Tag tag, std::span<const std::byte> view, Done done) {
  if (!status_.ok()) return PostDone(loop_, std::move(done), status_);
  outbox_.Push({.tag = tag, .view = view, .done = std::move(done)});
  SchedulePump();
}

void TcpConnection::Recv(Tag tag, std::span<std::byte> view, Done done) {
  auto posted = inbox_.Post({.tag = tag, .view = view, .done = std::move(done)});
  if (!posted.ok()) return Fail(posted.status(), tag);
  if (*posted) OnReceived(**std::move(posted));
  if (!status_.ok()) return EndReceives();
  writer_.Push({.kind = FrameKind::kReady, .tag = tag, .bytes = 0});
  SchedulePump();
}

void TcpConnection::Abort(const absl::Status& why) {
  if (status_.ok()) status_ = why;
  if (state_ == State::kOpen) state_ = State::kAborted;
  inbox_.DropStored();
  EndPending();
}

void TcpConnection::Close(Task closed) {
  closed_ = std::move(closed);
  CloseIfIdle();
}

void TcpConnection::Drop(const absl::Status& why) {
  if (status_.ok()) status_ = why;
  CloseSocket();
  EndPending();
}

// Reading

void TcpConnection::WaitReadable() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
    if (!error) self->OnReadable();
  });
}

void TcpConnection::OnReadable() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    if (state_ == State::kAborted || state_ == State::kClosed) return;
    if (!(state_ == State::kOpen ? ReadOnce() : IgnoreOnce())) break;
  }
  if (state_ != State::kAborted && state_ != State::kClosed) WaitReadable();
}

// False: nothing more to read now.
bool TcpConnection::ReadOnce() {
  const std::span<const iovec> targets = reader_.Targets();
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(targets.data());
  message.msg_iovlen = targets.size();
  const ssize_t received = recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  if (received < 0 && WouldBlock(errno)) return false;
  if (received <= 0) {
    if (received == 0 || errno != EINTR) Lose(received == 0 ? 0 : errno);
    return true;
  }
  const absl::Status taken = reader_.Take(static_cast<size_t>(received));
  if (!taken.ok() && status_.ok()) Fail(taken, reader_.last_tag());
  return true;
}

bool TcpConnection::IgnoreOnce() {
  std::array<std::byte, 16 * 1024> ignored;
  const ssize_t received =
      recv(socket_.native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  if (received < 0 && WouldBlock(errno)) return false;
  if (received == 0 || (received < 0 && errno != EINTR)) CloseSocket();
  return true;
}

void TcpConnection::OnReceived(EndedReceive ended) {
  if (ended.status.ok())
    counters_.received_bytes += static_cast<int64_t>(ended.receive.view.size());
  PostDone(loop_, std::move(ended.receive.done), Annotate(ended.status, peer_));
  CloseIfIdle();
}

absl::Status TcpConnection::OnReady(Tag tag) {
  SchedulePump();
  return outbox_.OnReady(tag);
}

absl::Status TcpConnection::OnFail(const FrameHeader& header) {
  const auto code = static_cast<absl::StatusCode>(header.bytes);
  const bool out_of_step = code == absl::StatusCode::kFailedPrecondition;
  status_ = absl::Status(
      out_of_step ? code : absl::StatusCode::kDataLoss,
      absl::StrCat(peer_, ": ",
                   out_of_step ? "ranks out of step" : "it could not take what this rank sent",
                   " at operation ", header.tag.operation));
  CloseSocket();
  EndPending();
  return status_;
}

// Writing

// One write per turn of the loop for all that the turn produced.
void TcpConnection::SchedulePump() {
  if (pump_scheduled_ || waiting_writable_) return;
  pump_scheduled_ = true;
  loop_.Post([self = shared_from_this()] {
    self->pump_scheduled_ = false;
    self->Pump();
  });
}

void TcpConnection::Pump() {
  for (int i = 0; i < kWritesPerTurn; ++i) {
    if (state_ != State::kOpen && state_ != State::kFailing) return;
    if (!WriteOnce()) return;
  }
  SchedulePump();
}

// False: nothing more to write now.
bool TcpConnection::WriteOnce() {
  const std::span<const iovec> sources = writer_.Sources();
  if (sources.empty()) {
    if (state_ == State::kFailing) ShutDownSending();
    return false;
  }
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(sources.data());
  message.msg_iovlen = sources.size();
  const ssize_t sent = sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && WouldBlock(errno)) {
    WaitWritable();
    return false;
  }
  // Whatever broke it, reading finds it too, after the last message that has arrived.
  if (sent < 0) return errno == EINTR;
  for (FrameWriter::Sent& frame : writer_.Advance(static_cast<size_t>(sent))) {
    counters_.sent_bytes += frame.bytes;
    PostDone(loop_, std::move(frame.done), absl::OkStatus());
  }
  CloseIfIdle();
  return true;
}

void TcpConnection::WaitWritable() {
  waiting_writable_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const error_code& error) {
    self->waiting_writable_ = false;
    if (!error) self->Pump();
  });
}

// Ends

// 0: the peer closed. Messages that have arrived whole can still be received.
void TcpConnection::Lose(int error_number) {
  if (status_.ok()) {
    status_ = absl::UnavailableError(absl::StrCat(peer_, ": ", Reason(error_number)));
  }
  CloseSocket();
  EndPending();
}

// Tells the peer, so that both ends report the same.
void TcpConnection::Fail(const absl::Status& status, Tag tag) {
  if (state_ != State::kOpen) return EndReceives();
  status_ = Annotate(status, peer_);
  state_ = State::kFailing;
  inbox_.DropStored();
  EndPending();
  writer_.Push(
      {.kind = FrameKind::kFail, .tag = tag, .bytes = static_cast<uint64_t>(status.code())});
  SchedulePump();
}

void TcpConnection::EndReceives() {
  for (PostedReceive& receive : inbox_.TakeAll()) PostDone(loop_, std::move(receive.done), status_);
}

void TcpConnection::EndPending() {
  EndReceives();
  for (Done& done : writer_.GiveUp()) PostDone(loop_, std::move(done), status_);
  for (OutMessage& message : outbox_.TakeAll()) PostDone(loop_, std::move(message.done), status_);
  CloseIfIdle();
}

bool TcpConnection::idle() const {
  return !inbox_.waiting() && outbox_.empty() && !writer_.has_message();
}

// A socket that is closed while input is unread takes back what it has not delivered yet. So only
// our direction ends here; the peer answers by closing its end.
void TcpConnection::CloseIfIdle() {
  if (!closed_ || close_timer_ || !idle()) return;
  if (state_ == State::kAborted || state_ == State::kClosed) return CloseSocket();
  if (state_ == State::kOpen) {
    status_ = absl::FailedPreconditionError("the transport is closed");
    state_ = State::kClosing;
    ShutDownSending();
  }
  close_timer_ = loop_.PostAt(loop_.Now() + options_.close_timeout, [self = shared_from_this()] {
    self->close_timer_.reset();
    self->CloseSocket();
  });
}

void TcpConnection::ShutDownSending() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void TcpConnection::CloseSocket() {
  if (close_timer_) loop_.Cancel(*std::exchange(close_timer_, std::nullopt));
  state_ = State::kClosed;
  error_code ignored;
  socket_.close(ignored);
  if (closed_ && idle()) loop_.Post(std::exchange(closed_, nullptr));
}

}  // namespace strata
