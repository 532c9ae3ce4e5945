#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "comm/control/rendezvous.h"

namespace strata {

// Launcher rank 0 while the ranks meet. In the loop.
class RendezvousHub {
 public:
  using Finished = absl::AnyInvocable<void(absl::StatusOr<Gathering>) &&>;

  // `finished` is called once, in a task of the loop.
  RendezvousHub(AsioLoop& loop, const RendezvousOptions& options,
                boost::asio::ip::tcp::acceptor acceptor, Finished finished);
  ~RendezvousHub();

  void Start();

 private:
  // Somebody who has proved to know the token.
  struct Guest {
    std::unique_ptr<ControlConnection> connection;
    ControlHello hello;
    bool present = false;  // `hello` has come
  };

  void Accept();
  void Refuse(const std::string& who, const absl::Status& why);
  void Welcome(boost::asio::ip::tcp::socket socket);
  void OnHello(Guest& guest, absl::string_view message);
  absl::Status Check(const Guest& guest) const;
  void Reject(absl::Status why);
  void EndIfComplete();
  void OnDeadline();
  void End(absl::Status status);

  AsioLoop& loop_;
  const RendezvousOptions options_;
  boost::asio::ip::tcp::acceptor acceptor_;
  Finished finished_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  TimerId deadline_{};
  std::list<Guest> guests_;
  std::map<uint32_t, Guest*> present_;  // by launcher rank
  absl::Status rejected_;               // why these ranks form no world
  std::string last_refusal_;
  int refusals_ = 0;
};

}  // namespace strata
