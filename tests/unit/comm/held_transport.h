#pragma once

#include <utility>
#include <vector>

#include "comm/transport.h"

namespace strata {

// A Transport that moves nothing: it keeps what it is asked until the test ends it.
class HeldTransport final : public Transport {
 public:
  struct Request {
    bool is_send;
    Rank peer;
    Tag tag;
    size_t bytes;
    Done done;
  };

  void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) override {
    pending.push_back({true, peer, tag, view.size(), std::move(done)});
  }
  void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) override {
    pending.push_back({false, peer, tag, view.size(), std::move(done)});
  }
  // Gives nothing back: the test says when.
  void Abort(absl::Status why) override { aborts.push_back(std::move(why)); }
  void Close(Done done) override { std::move(done)(absl::OkStatus()); }
  Counters counters() const override { return {}; }

  // In the loop, as if called by it.
  void End(size_t index, absl::Status status) {
    Done done = std::move(pending[index].done);
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(index));
    std::move(done)(std::move(status));
  }

  std::vector<Request> pending;
  std::vector<absl::Status> aborts;
};

}  // namespace strata
