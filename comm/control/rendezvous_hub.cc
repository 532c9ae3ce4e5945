#include "comm/control/rendezvous_hub.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "comm/tcp/handshake.h"
#include "kernels/log.h"
#include "kernels/status.h"

namespace strata {

using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kMaxLoggedRefusals = 10;
// Ranks that come a little later are told too why there will be no world.
constexpr absl::Duration kLateness = absl::Seconds(1);

}  // namespace

RendezvousHub::RendezvousHub(AsioLoop& loop, const RendezvousOptions& options,
                             tcp::acceptor acceptor, Finished finished)
    : loop_(loop),
      options_(options),
      acceptor_(std::move(acceptor)),
      finished_(std::move(finished)) {}

RendezvousHub::~RendezvousHub() { *alive_ = false; }

void RendezvousHub::Start() {
  deadline_ = loop_.PostAt(loop_.Now() + options_.timeout, [this, alive = alive_] {
    if (*alive) OnDeadline();
  });
  Accept();
  loop_.Post([this, alive = alive_] {
    if (*alive) EndIfComplete();  // a world of one
  });
}

void RendezvousHub::Accept() {
  acceptor_.async_accept([this, alive = alive_](const error_code& error, tcp::socket socket) {
    if (!*alive || !finished_ || !acceptor_.is_open()) return;
    if (!error) {
      error_code ignored;
      const tcp::endpoint from = socket.remote_endpoint(ignored);
      const std::string address = absl::StrCat(from.address().to_string(), ":", from.port());
      const HandshakeIdentity identity{Rank{0}, "control", options_.token};
      std::make_shared<Handshake>(
          loop_, std::move(socket), identity,
          [this, alive, address](const absl::Status& status, tcp::socket authenticated, Rank peer) {
            if (!*alive || !finished_) return;
            if (status.ok()) return Welcome(std::move(authenticated));
            // Zero when it did not get as far as to name itself.
            Refuse(Index(peer) > 0 ? absl::StrCat("launcher rank ", Index(peer), " at ", address)
                                   : address,
                   status);
          })
          ->Accept(absl::Seconds(10));
    }
    Accept();
  });
}

void RendezvousHub::Refuse(const std::string& who, const absl::Status& why) {
  last_refusal_ = absl::StrCat("refused ", who, ": ", std::string(why.message()));
  if (++refusals_ > kMaxLoggedRefusals) return;  // whoever scans ports does not fill the log
  Log(Severity::kWarning,
      absl::StrCat("rendezvous ", last_refusal_,
                   refusals_ < kMaxLoggedRefusals ? "" : " (further ones are not logged)"));
}

void RendezvousHub::Welcome(tcp::socket socket) {
  Guest& guest = guests_.emplace_back();
  guest.connection =
      std::make_unique<ControlConnection>(std::move(socket), ControlConnection::kMaxShareBytes);
  guest.connection->Listen(
      [this, &guest](ControlKind kind, absl::string_view message) {
        if (!finished_) return;
        if (kind == ControlKind::kHello && !guest.present) return OnHello(guest, message);
        Refuse(guest.connection->peer(), absl::DataLossError("unexpected control message"));
      },
      [this, &guest](const absl::Status& why) {
        if (!finished_) return;
        if (!guest.present) return Refuse(guest.connection->peer(), why);
        Reject(absl::UnavailableError(
            absl::StrCat(LauncherName(guest.hello),
                         " went away while the ranks met: ", std::string(why.message()))));
      });
}

void RendezvousHub::OnHello(Guest& guest, absl::string_view message) {
  absl::StatusOr<ControlHello> hello = ControlHello::Decode(message);
  if (!hello.ok()) {
    // It knows the token, so it is one of us: another version.
    return Reject(Annotate(hello.status(), guest.connection->peer()));
  }
  guest.hello = *std::move(hello);
  guest.present = true;
  const absl::Status status = Check(guest);
  if (!status.ok()) return Reject(status);
  present_[guest.hello.launcher_rank] = &guest;
  EndIfComplete();
}

void RendezvousHub::Reject(absl::Status why) {
  if (!rejected_.ok()) return EndIfComplete();
  rejected_ = std::move(why);
  loop_.PostAt(loop_.Now() + kLateness, [this, alive = alive_] {
    if (*alive) End(rejected_);
  });
  EndIfComplete();
}

absl::Status RendezvousHub::Check(const Guest& guest) const {
  const ControlHello& hello = guest.hello;
  if (hello.size != options_.self.size) {
    return absl::FailedPreconditionError(
        absl::StrCat(LauncherName(hello), " was started in a world of ", hello.size, " ranks, ",
                     LauncherName(options_.self), " in one of ", options_.self.size,
                     "; give all ranks the same world size"));
  }
  if (hello.launcher_rank == 0 || hello.launcher_rank >= hello.size) {
    return absl::FailedPreconditionError(
        absl::StrCat(LauncherName(hello), " is not in a world of ", hello.size, " ranks"));
  }
  if (const auto other = present_.find(hello.launcher_rank); other != present_.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "two processes say that they are launcher rank ", hello.launcher_rank, ": one on host ",
        other->second->hello.host, " (", other->second->connection->peer(), ") and one on host ",
        hello.host, " (", guest.connection->peer(), "); give each process a rank of its own"));
  }
  return absl::OkStatus();
}

void RendezvousHub::EndIfComplete() {
  if (!finished_) return;
  if (!rejected_.ok() && guests_.size() + 1 >= options_.self.size) return End(rejected_);
  if (!rejected_.ok() || present_.size() + 1 < options_.self.size) return;
  std::vector<ControlHello> ranks{options_.self};
  for (const auto& [rank, guest] : present_) ranks.push_back(guest->hello);
  const absl::Status equal = CompareFingerprints(ranks);
  if (!equal.ok()) return End(equal);
  Gathering gathering;
  std::vector<std::string> roster;
  gathering.connections.emplace_back();
  for (ControlHello& rank : ranks) {
    rank.fingerprint.clear();
    roster.push_back(rank.Encode());
  }
  const std::string message = EncodeStrings(roster);
  for (const auto& [rank, guest] : present_) {
    guest->connection->Pause();
    guest->connection->Send(ControlKind::kRoster, message);
    gathering.connections.push_back(std::move(guest->connection));
  }
  gathering.ranks = std::move(ranks);
  loop_.Cancel(deadline_);
  error_code ignored;
  acceptor_.close(ignored);
  std::exchange(finished_, nullptr)(std::move(gathering));
}

void RendezvousHub::OnDeadline() {
  std::vector<std::string> absent;
  size_t count = 0;
  for (uint32_t rank = 1; rank < options_.self.size; ++rank) {
    if (present_.contains(rank)) continue;
    if (++count <= 20) absent.push_back(absl::StrCat(rank));
  }
  if (count > absent.size()) absent.push_back(absl::StrCat("and ", count - absent.size(), " more"));
  End(absl::DeadlineExceededError(absl::StrCat(
      "after ", absl::FormatDuration(options_.timeout), " launcher rank", count == 1 ? " " : "s ",
      absl::StrJoin(absent, ", "), count == 1 ? " has" : " have", " not come to the rendezvous at ",
      options_.host, ":", options_.port, "; ", present_.size() + 1, " of ", options_.self.size,
      " ranks are here", last_refusal_.empty() ? "" : absl::StrCat("; ", last_refusal_))));
}

void RendezvousHub::End(absl::Status status) {
  if (!finished_) return;
  loop_.Cancel(deadline_);
  error_code ignored;
  acceptor_.close(ignored);
  const std::string message = EncodeStatus(status);
  for (Guest& guest : guests_) guest.connection->Send(ControlKind::kRefused, message);
  std::exchange(finished_, nullptr)(std::move(status));
}

}  // namespace strata
