#include "comm/control/control_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kHeaderBytes = 5;
constexpr size_t kReadBytes = 64 * 1024;

std::string PeerOf(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint endpoint = socket.remote_endpoint(error);
  if (error) return "unknown address";
  return absl::StrCat(endpoint.address().to_string(), ":", endpoint.port());
}

}  // namespace

ControlConnection::ControlConnection(tcp::socket socket, uint32_t limit)
    : socket_(std::move(socket)), limit_(limit), peer_(PeerOf(socket_)) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
}

ControlConnection::~ControlConnection() { *alive_ = false; }

void ControlConnection::Listen(OnMessage on_message, OnClosed on_closed) {
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  paused_ = false;
  boost::asio::post(socket_.get_executor(), [this, alive = alive_] {
    if (*alive) Deliver();
  });
}

void ControlConnection::WaitReadable() {
  if (waiting_ || paused_ || closed_) return;
  waiting_ = true;
  socket_.async_wait(tcp::socket::wait_read, [this, alive = alive_](const error_code& error) {
    if (!*alive || error) return;
    waiting_ = false;
    if (!paused_) Read();
  });
}

void ControlConnection::Read() {
  const size_t before = in_.size();
  in_.resize(before + kReadBytes);
  error_code error;
  const size_t got = socket_.read_some(boost::asio::buffer(in_.data() + before, kReadBytes), error);
  in_.resize(before + got);
  if (error == boost::asio::error::would_block) return WaitReadable();
  if (error) return Closed(absl::UnavailableError("connection closed"));
  Deliver();
}

void ControlConnection::Deliver() {
  size_t begin = 0;
  while (!paused_ && !closed_ && in_.size() - begin >= kHeaderBytes) {
    uint32_t bytes = 0;
    for (size_t i = 0; i < 4; ++i) {
      bytes |= uint32_t{static_cast<unsigned char>(in_[begin + i])} << (8 * i);
    }
    if (bytes > limit_) {
      Closed(absl::DataLossError(absl::StrCat("malformed control message of ", bytes, " bytes")));
      return;
    }
    if (in_.size() - begin - kHeaderBytes < bytes) break;
    const auto kind = static_cast<ControlKind>(in_[begin + 4]);
    const std::string message = in_.substr(begin + kHeaderBytes, bytes);
    begin += kHeaderBytes + bytes;
    on_message_(kind, message);
  }
  in_.erase(0, begin);
  WaitReadable();
}

void ControlConnection::Send(ControlKind kind, absl::string_view message) {
  if (closed_) return;
  const auto bytes = static_cast<uint32_t>(message.size());
  for (int shift = 0; shift < 32; shift += 8) {
    out_.push_back(static_cast<char>(bytes >> shift & 0xff));
  }
  out_.push_back(static_cast<char>(kind));
  out_.append(message.data(), message.size());
  if (!writing_) Write();
}

void ControlConnection::Write() {
  while (!out_.empty()) {
    error_code error;
    const size_t wrote = socket_.write_some(boost::asio::buffer(out_), error);
    out_.erase(0, wrote);
    if (!error) continue;
    if (error != boost::asio::error::would_block) {
      out_.clear();  // the reader finds out, after what the peer wrote before it went
      return;
    }
    writing_ = true;
    socket_.async_wait(tcp::socket::wait_write, [this, alive = alive_](const error_code& waited) {
      if (!*alive) return;
      writing_ = false;
      if (!waited) Write();
    });
    return;
  }
}

void ControlConnection::Closed(absl::Status why) {
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
  on_closed_(std::move(why));
}

}  // namespace strata
