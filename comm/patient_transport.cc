#include "comm/patient_transport.h"

#include <utility>

#include "comm/loop_calls.h"

namespace strata {

PatientTransport::~PatientTransport() {
  Abort(absl::AbortedError("the transport is gone"));
  *alive_ = false;
}

void PatientTransport::Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) {
  inner_->Send(peer, tag, view, Wrap(std::move(done)));
}

void PatientTransport::Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) {
  inner_->Recv(peer, tag, view, Wrap(std::move(done)));
}

Done PatientTransport::Wrap(Done done) {
  return [this, alive = alive_, done = std::move(done)](absl::Status status) mutable {
    if (absl::IsUnavailable(status) && *alive && !aborted_) {
      return Hold(std::move(status), std::move(done));
    }
    std::move(done)(std::move(status));
  };
}

void PatientTransport::Hold(absl::Status status, Done done) {
  const uint64_t id = next_id_++;
  const TimerId timer = loop_.PostAt(loop_.Now() + patience_, [this, id, alive = alive_] {
    if (*alive) Release(id);
  });
  held_.emplace(id, Held{std::move(status), std::move(done), timer});
}

void PatientTransport::Release(uint64_t id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  Held held = std::move(found->second);
  held_.erase(found);
  std::move(held.done)(std::move(held.status));
}

void PatientTransport::Abort(absl::Status why) {
  aborted_ = true;
  for (auto& [id, held] : std::exchange(held_, {})) {
    loop_.Cancel(held.timer);
    PostDone(loop_, std::move(held.done), why);
  }
  inner_->Abort(std::move(why));
}

}  // namespace strata
