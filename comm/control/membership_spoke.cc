#include "comm/control/membership_spoke.h"

#include <utility>

#include "comm/control/membership_hub.h"
#include "kernels/status.h"

namespace strata {

std::unique_ptr<Membership> Membership::Create(
    AsioLoop& loop, std::vector<std::unique_ptr<ControlConnection>> connections, Options options) {
  STRATA_CHECK(loop.InLoop());
  if (options.self == 0) {
    return std::make_unique<MembershipHub>(loop, std::move(connections), std::move(options));
  }
  return std::make_unique<MembershipSpoke>(loop, std::move(connections[0]), std::move(options));
}

MembershipSpoke::MembershipSpoke(AsioLoop& loop, std::unique_ptr<ControlConnection> hub,
                                 Options options)
    : Member(loop, std::move(options)), hub_(std::move(hub)), heard_(loop.Now()) {
  hub_->Listen(
      [this](ControlKind kind, absl::string_view message) { OnMessage(kind, message); },
      [this](const absl::Status& why) { HubLost(LossOf(0, absl::string_view(why.message()))); });
  StartTicks();
}

void MembershipSpoke::OnMessage(ControlKind kind, absl::string_view message) {
  heard_ = loop_.Now();
  switch (kind) {
    case ControlKind::kHeartbeat:
      return;
    case ControlKind::kShares:
      return OnShares(message);
    case ControlKind::kGoodbye:
      hub_goodbye_ = true;
      return;
    case ControlKind::kVerdict:
      return OnVerdict(DecodeStatus(message));
    case ControlKind::kEnd:
      return SetEnded();
    default:
      return OnVerdict(FailureOf(0, absl::DataLossError("unexpected control message")));
  }
}

void MembershipSpoke::OnShares(absl::string_view message) {
  absl::StatusOr<std::vector<std::string>> shares = DecodeStrings(message, size());
  if (!shares.ok() || !shares_) {
    return OnVerdict(FailureOf(0, absl::DataLossError("malformed exchange")));
  }
  Later(absl::ZeroDuration(),
        [done = std::exchange(shares_, nullptr), shares = *std::move(shares)]() mutable {
          std::move(done)(std::move(shares));
        });
}

void MembershipSpoke::OnVerdict(absl::Status verdict) {
  hub_->Send(ControlKind::kVerdictSeen);
  Decide(std::move(verdict));
}

// A hub that left on purpose, or that has let everybody go, is no loss; nobody is left to ask.
void MembershipSpoke::HubLost(absl::Status verdict) {
  if (!ended() && !hub_goodbye_) Decide(std::move(verdict));
  SetEnded();
}

void MembershipSpoke::Tick() {
  if (ended()) return;
  hub_->Send(ControlKind::kHeartbeat);
  if (!hub_goodbye_ && Silent(heard_)) HubLost(SilenceOf(0));
}

void MembershipSpoke::Exchange(std::string mine, Shares done) {
  shares_ = std::move(done);
  hub_->Send(ControlKind::kShare, mine);
}

void MembershipSpoke::SayGoodbye() { hub_->Send(ControlKind::kGoodbye); }

void MembershipSpoke::SayFailed(const absl::Status& why) {
  hub_->Send(ControlKind::kFailed, EncodeStatus(why));
}

}  // namespace strata
