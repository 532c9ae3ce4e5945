#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "comm/sim/sim_world.h"
#include "comm/transport.h"

namespace strata {

class SimNetwork;
struct SimMessage;

// A Transport over a SimNetwork: bytes are really copied, time is virtual. A send is done when its
// bytes are on the wire, or later where the network limits what comes early. Abort resets the
// connections: peers get Unavailable with the reason.
class SimTransport final : public Transport {
 public:
  ~SimTransport() override;

  void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) override;
  void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) override;
  void Abort(absl::Status why) override;
  void Close(Done done) override;
  Counters counters() const override { return counters_; }

 private:
  friend class SimNetwork;

  using Key = std::tuple<int32_t, uint32_t, uint32_t>;  // peer, operation, message
  struct Receive {
    Tag tag;
    std::span<std::byte> view;
    Done done;
  };

  SimTransport(SimNetwork& network, Rank self, int lane, SimLoop& loop);

  // From the network: `message` is done, has arrived; `peer` is lost.
  void OnSent(SimMessage& message);
  void OnArrival(std::shared_ptr<SimMessage> message);
  void OnLoss(Rank peer, const std::string& why);

  // "peer 3 (host n1)"
  std::string PeerName(Rank peer) const;
  // OK, or why nothing passes between here and `peer` any more.
  absl::Status StatusWith(Rank peer) const;
  // Keeps `message` until its receive is posted.
  void KeepEarly(std::shared_ptr<SimMessage> message);
  void Finish(Receive receive, const std::shared_ptr<SimMessage>& arrived);
  void End(Done done, absl::Status status);
  // Fails what is pending with `peer`, or with everybody for -1.
  void FailPending(int32_t peer, const absl::Status& why);
  void MaybeClosed();

  SimNetwork& network_;
  const Rank self_;
  const int lane_;
  SimLoop& loop_;
  std::map<Key, Receive> receives_;
  std::map<Key, std::shared_ptr<SimMessage>> unexpected_;
  std::map<int32_t, int64_t> early_bytes_;  // by peer: of unexpected messages that are stored
  std::vector<std::shared_ptr<SimMessage>> sends_;
  std::map<int32_t, absl::Status> lost_;
  absl::Status aborted_;
  bool closing_ = false;
  Done closed_;  // until it has been told
  Counters counters_;
};

}  // namespace strata
