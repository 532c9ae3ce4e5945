#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "comm/control/rendezvous.h"

namespace strata {

// Any other launcher rank while the ranks meet: finds launcher rank 0, again and again until the
// deadline, and says who it is. In the loop.
class RendezvousSpoke {
 public:
  using Finished = absl::AnyInvocable<void(absl::StatusOr<Gathering>) &&>;

  // `hub` is where launcher rank 0 listens. `finished` is called once, in a task of the loop.
  RendezvousSpoke(AsioLoop& loop, const RendezvousOptions& options,
                  boost::asio::ip::tcp::endpoint hub, Finished finished);
  ~RendezvousSpoke();

  void Start();

 private:
  void Dial();
  void Retry(const absl::Status& why);
  void Prove();
  void SayHello(boost::asio::ip::tcp::socket socket);
  void OnMessage(ControlKind kind, absl::string_view message);
  void OnRoster(absl::string_view message);
  void OnDeadline();
  void End(absl::Status status);
  std::string Hub() const;

  AsioLoop& loop_;
  const RendezvousOptions options_;
  const boost::asio::ip::tcp::endpoint hub_;
  Finished finished_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  TimerId deadline_{};
  TimerId attempt_{};
  boost::asio::ip::tcp::socket socket_;
  absl::Status last_;  // why the last attempt failed
  std::unique_ptr<ControlConnection> connection_;
};

}  // namespace strata
