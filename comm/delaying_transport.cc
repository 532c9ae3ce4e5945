#include "comm/delaying_transport.h"

#include <utility>

namespace strata {

DelayingTransport::~DelayingTransport() {
  if (!loop_.InLoop()) return;
  for (auto& [number, held] : held_) loop_.Cancel(held.timer);
}

void DelayingTransport::Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) {
  const absl::StatusOr<absl::Time> when = Fate(peer, static_cast<int64_t>(view.size()));
  if (!when.ok()) return End(std::move(done), when.status());
  if (*when <= loop_.Now()) return inner_.Send(peer, tag, view, std::move(done));
  const uint64_t number = next_number_++;
  const TimerId timer = loop_.PostAt(*when, [this, number] { GoOn(number); });
  held_.emplace(number, Held{timer, peer, tag, view, std::move(done)});
}

void DelayingTransport::GoOn(uint64_t number) {
  auto node = held_.extract(number);
  if (node.empty()) return;  // aborted after the timer had fired
  Held& held = node.mapped();
  inner_.Send(held.peer, held.tag, held.view, std::move(held.done));
  MaybeClose();
}

void DelayingTransport::Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) {
  inner_.Recv(peer, tag, view, std::move(done));
}

void DelayingTransport::End(Done done, absl::Status status) {
  loop_.Post([done = std::move(done), status = std::move(status)]() mutable {
    std::move(done)(std::move(status));
  });
}

void DelayingTransport::Abort(absl::Status why) {
  for (auto& [number, held] : std::exchange(held_, {})) {
    loop_.Cancel(held.timer);
    End(std::move(held.done), why);
  }
  inner_.Abort(std::move(why));
  MaybeClose();
}

void DelayingTransport::Close(Done done) {
  closing_ = std::move(done);
  MaybeClose();
}

void DelayingTransport::MaybeClose() {
  if (closing_ != nullptr && held_.empty()) inner_.Close(std::move(closing_));
}

}  // namespace strata
