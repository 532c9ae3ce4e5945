#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "comm/control/messages.h"

namespace strata {

// Frames over one authenticated TCP connection of the control plane: four bytes of length, one of
// kind, the message. Everything, destruction included, in the loop.
class ControlConnection {
 public:
  // What one rank may say, and what rank 0 says of all.
  static constexpr uint32_t kMaxShareBytes = 256 * 1024;
  static constexpr uint32_t kMaxAllBytes = 256 * 1024 * 1024;

  using OnMessage = absl::AnyInvocable<void(ControlKind, absl::string_view)>;
  using OnClosed = absl::AnyInvocable<void(absl::Status)>;

  // Longer messages than `limit` end the connection.
  ControlConnection(boost::asio::ip::tcp::socket socket, uint32_t limit);
  ~ControlConnection();

  // Starts to deliver, in tasks of its own. The callbacks must neither destroy the connection nor
  // call Listen; after `on_closed` nothing more is called.
  void Listen(OnMessage on_message, OnClosed on_closed);

  // Delivers nothing more until the next Listen; what arrives is kept. May be called by a callback.
  void Pause() { paused_ = true; }

  // Written at once as far as the socket takes it, so that a process may end right after.
  void Send(ControlKind kind, absl::string_view message = {});

  // "10.0.0.2:41234".
  const std::string& peer() const { return peer_; }

 private:
  void WaitReadable();
  void Read();
  void Deliver();
  void Write();
  void Closed(absl::Status why);

  boost::asio::ip::tcp::socket socket_;
  const uint32_t limit_;
  const std::string peer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool paused_ = true;
  bool waiting_ = false;
  bool closed_ = false;
  bool writing_ = false;
  std::string in_, out_;
  OnMessage on_message_;
  OnClosed on_closed_;
};

}  // namespace strata
