#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/loop.h"
#include "comm/transport.h"

namespace strata {

// A Transport that holds each send back for a while before it gives it to another: what
// ShapedTransport and FaultyTransport have in common. Destroyed in the loop, or when the loop runs
// no more.
class DelayingTransport : public Transport {
 public:
  // Both borrowed; `inner` lives on `loop`.
  DelayingTransport(Loop& loop, Transport& inner) : loop_(loop), inner_(inner) {}
  ~DelayingTransport() override;

  void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) final;
  void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) final;
  void Abort(absl::Status why) final;
  void Close(Done done) final;
  Counters counters() const final { return inner_.counters(); }

 protected:
  // When the send goes on, or the error that it ends with instead.
  virtual absl::StatusOr<absl::Time> Fate(Rank peer, int64_t bytes) = 0;

  Loop& loop() { return loop_; }

 private:
  struct Held {
    TimerId timer;
    Rank peer;
    Tag tag;
    std::span<const std::byte> view;
    Done done;
  };
  void GoOn(uint64_t number);
  void End(Done done, absl::Status status);
  void MaybeClose();

  Loop& loop_;
  Transport& inner_;
  std::map<uint64_t, Held> held_;
  uint64_t next_number_ = 0;
  Done closing_;
};

}  // namespace strata
