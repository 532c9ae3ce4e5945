#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/asio_loop.h"
#include "comm/shm/memory_segments.h"
#include "comm/transport.h"

namespace strata {

// Transport between the ranks of one node. A message that lies in one of the sender's shared
// segments is copied once: the sender names the place, the receiver copies from there into its own
// buffer, at most 1 MiB per task, and acknowledges; the send is done then. Other messages go
// through the socket. A send therefore ends only after its receive was posted.
class ShmTransport final : public Transport {
 public:
  struct Peer {
    Rank rank{};
    std::string name;  // for errors: "peer 1 (host a)"
    int fd = -1;       // authenticated stream socket; the transport's from now on
  };

  // In the loop. The destructor on any thread while the loop runs; what is pending then ends with
  // Aborted. `segments` is borrowed.
  ShmTransport(AsioLoop& loop, const MemorySegments& segments, std::vector<Peer> peers);
  ~ShmTransport() override;

  void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) override;
  void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) override;
  void Abort(absl::Status why) override;
  void Close(Done done) override;
  Counters counters() const override { return counters_; }

 private:
  class Endpoint;  // one peer: its connection and what is pending with it

  // A message on its way into the buffer of its receive.
  struct Copy {
    Endpoint* from = nullptr;
    const std::byte* source = nullptr;
    std::vector<std::byte> payload;  // what `source` is in, if it came through the socket
    std::span<std::byte> target;
    size_t copied = 0;
    uint64_t sequence = 0;
    Done done;
  };

  Endpoint& Find(Rank peer);
  void AddCopy(Copy copy);
  void PostCopies();
  void RunCopies();
  void DropCopies(const Endpoint& from, const absl::Status& why);
  void EndCloseIfIdle();

  AsioLoop& loop_;
  const MemorySegments& segments_;
  std::map<Rank, std::unique_ptr<Endpoint>> endpoints_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::deque<Copy> copies_;
  bool copies_posted_ = false;
  absl::Status why_;  // of Abort
  Done closing_;
  bool endpoints_closed_ = false;
  Counters counters_;
};

}  // namespace strata
