#include "comm/control/membership_hub.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

// For what only others do: seeing a verdict, closing their end.
constexpr absl::Duration kPatience = absl::Seconds(1);

}  // namespace

MembershipHub::MembershipHub(AsioLoop& loop,
                             std::vector<std::unique_ptr<ControlConnection>> connections,
                             Options options)
    : Member(loop, std::move(options)), spokes_(connections.size()) {
  spokes_[0].gone = true;
  for (int rank = 1; rank < size(); ++rank) {
    Spoke& spoke = spokes_[rank];
    spoke.connection = std::move(connections[rank]);
    spoke.heard = loop_.Now();
    spoke.connection->Listen(
        [this, rank](ControlKind kind, absl::string_view message) {
          OnMessage(rank, kind, message);
        },
        [this, rank](const absl::Status& why) { OnClosed(rank, why); });
  }
  StartTicks();
}

void MembershipHub::OnMessage(int rank, ControlKind kind, absl::string_view message) {
  Spoke& spoke = spokes_[rank];
  spoke.heard = loop_.Now();
  switch (kind) {
    case ControlKind::kHeartbeat:
      return;
    case ControlKind::kShare:
      spoke.share = std::string(message);
      spoke.shared = true;
      return ShareIfComplete();
    case ControlKind::kGoodbye:
      spoke.goodbye = true;
      return EndIfAllKnow();
    case ControlKind::kFailed:
      return Declare(FailureOf(rank, DecodeStatus(message)));
    case ControlKind::kVerdictSeen:
      spoke.seen = true;
      return EndIfAllKnow();
    default:
      return Declare(FailureOf(rank, absl::DataLossError("unexpected control message")));
  }
}

void MembershipHub::OnClosed(int rank, const absl::Status& why) {
  Spoke& spoke = spokes_[rank];
  spoke.gone = true;
  if (!spoke.goodbye && !end_sent_) {
    Declare(LossOf(rank, absl::string_view(why.message())));
  }
  EndIfAllKnow();
  FinishIfAllGone();
}

void MembershipHub::Tick() {
  for (int rank = 1; rank < size(); ++rank) {
    Spoke& spoke = spokes_[rank];
    if (spoke.gone) continue;
    spoke.connection->Send(ControlKind::kHeartbeat);
    if (!spoke.goodbye && verdict().ok() && Silent(spoke.heard)) {
      Declare(SilenceOf(rank));
      spoke.gone = true;
      EndIfAllKnow();
    }
  }
}

void MembershipHub::Exchange(std::string mine, Shares done) {
  spokes_[0].share = std::move(mine);
  spokes_[0].shared = true;
  shares_ = std::move(done);
  ShareIfComplete();
}

void MembershipHub::ShareIfComplete() {
  if (!std::all_of(spokes_.begin(), spokes_.end(), [](const Spoke& s) { return s.shared; })) {
    return;
  }
  std::vector<std::string> shares;
  for (Spoke& spoke : spokes_) {
    shares.push_back(std::exchange(spoke.share, {}));
    spoke.shared = false;
  }
  SendAll(ControlKind::kShares, EncodeStrings(shares));
  Later(absl::ZeroDuration(),
        [done = std::exchange(shares_, nullptr), shares = std::move(shares)]() mutable {
          std::move(done)(std::move(shares));
        });
}

void MembershipHub::SayGoodbye() {
  SendAll(ControlKind::kGoodbye);
  EndIfAllKnow();
}

void MembershipHub::SayFailed(const absl::Status& why) { Declare(FailureOf(0, why)); }

void MembershipHub::Declare(absl::Status verdict) {
  if (!this->verdict().ok() || end_sent_) return;
  SendAll(ControlKind::kVerdict, EncodeStatus(verdict));
  Decide(std::move(verdict));
  Later(kPatience, [this] { End(); });
  EndIfAllKnow();
}

void MembershipHub::EndIfAllKnow() {
  const bool failed = !verdict().ok();
  if (!failed && !said_goodbye()) return;
  const auto knows = [failed](const Spoke& s) { return s.gone || (failed ? s.seen : s.goodbye); };
  if (std::all_of(spokes_.begin(), spokes_.end(), knows)) End();
}

void MembershipHub::End() {
  if (std::exchange(end_sent_, true)) return;
  SendAll(ControlKind::kEnd);
  Later(kPatience, [this] { SetEnded(); });
  FinishIfAllGone();
}

// The others close first: what this end wrote last is then not overtaken by a reset.
void MembershipHub::FinishIfAllGone() {
  if (!end_sent_ || ended()) return;
  if (std::all_of(spokes_.begin(), spokes_.end(), [](const Spoke& s) { return s.gone; })) {
    SetEnded();
  }
}

void MembershipHub::SendAll(ControlKind kind, absl::string_view message) {
  for (Spoke& spoke : spokes_) {
    if (!spoke.gone) spoke.connection->Send(kind, message);
  }
}

}  // namespace strata
