#pragma once

#include <map>
#include <memory>

#include "absl/time/time.h"
#include "comm/loop.h"
#include "comm/transport.h"

namespace strata {

// Keeps what a broken connection reports until membership has said why ([Note: Verdict]): when a
// rank dies, the first to leave break connections too, and would be named instead of it. An
// operation that failed with Unavailable ends with the verdict as soon as Abort brings it, or with
// its own error after `patience`. Everything else passes. In the loop.
class PatientTransport final : public Transport {
 public:
  PatientTransport(Loop& loop, std::unique_ptr<Transport> inner, absl::Duration patience)
      : loop_(loop), inner_(std::move(inner)), patience_(patience) {}
  ~PatientTransport() override;

  void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) override;
  void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) override;
  void Abort(absl::Status why) override;
  void Close(Done done) override { inner_->Close(std::move(done)); }
  Counters counters() const override { return inner_->counters(); }

 private:
  struct Held {
    absl::Status status;
    Done done;
    TimerId timer{};
  };

  Done Wrap(Done done);
  void Hold(absl::Status status, Done done);
  void Release(uint64_t id);

  Loop& loop_;
  std::unique_ptr<Transport> inner_;
  const absl::Duration patience_;
  bool aborted_ = false;
  std::map<uint64_t, Held> held_;
  uint64_t next_id_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace strata
