#include "comm/control/rendezvous_spoke.h"

#include <utility>

#include "comm/tcp/handshake.h"
#include "kernels/status.h"

namespace strata {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr absl::Duration kRetry = absl::Milliseconds(50);
constexpr absl::Duration kAttempt = absl::Seconds(5);
// Launcher rank 0 names who is absent; this rank may have started a little earlier.
constexpr absl::Duration kPatience = absl::Seconds(2);

}  // namespace

RendezvousSpoke::RendezvousSpoke(AsioLoop& loop, const RendezvousOptions& options,
                                 tcp::endpoint hub, Finished finished)
    : loop_(loop),
      options_(options),
      hub_(std::move(hub)),
      finished_(std::move(finished)),
      socket_(loop.context()) {}

RendezvousSpoke::~RendezvousSpoke() { *alive_ = false; }

std::string RendezvousSpoke::Hub() const {
  return absl::StrCat("launcher rank 0 at ", options_.host, ":", options_.port);
}

void RendezvousSpoke::Start() {
  deadline_ = loop_.PostAt(loop_.Now() + options_.timeout + kPatience, [this, alive = alive_] {
    if (*alive) OnDeadline();
  });
  Dial();
}

void RendezvousSpoke::Dial() {
  socket_ = tcp::socket(loop_.context());
  // A peer whose host drops packets does not answer at all.
  attempt_ = loop_.PostAt(loop_.Now() + kAttempt, [this, alive = alive_] {
    error_code ignored;
    if (*alive) socket_.close(ignored);
  });
  socket_.async_connect(hub_, [this, alive = alive_](const error_code& error) {
    if (!*alive || !finished_) return;
    loop_.Cancel(attempt_);
    if (error) return Retry(absl::UnavailableError(error.message()));
    Prove();
  });
}

void RendezvousSpoke::Retry(const absl::Status& why) {
  last_ = why;
  loop_.PostAt(loop_.Now() + kRetry, [this, alive = alive_] {
    if (*alive && finished_) Dial();
  });
}

void RendezvousSpoke::Prove() {
  const Rank self{static_cast<int32_t>(options_.self.launcher_rank)};
  std::make_shared<Handshake>(
      loop_, std::move(socket_), HandshakeIdentity{self, "control", options_.token},
      [this, alive = alive_](const absl::Status& status, tcp::socket socket, Rank) {
        if (!*alive || !finished_) return;
        if (status.ok()) return SayHello(std::move(socket));
        if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) return Retry(status);
        End(absl::FailedPreconditionError(absl::StrCat(Hub(), " refused launcher rank ",
                                                       options_.self.launcher_rank, ": ",
                                                       std::string(status.message()))));
      })
      ->Connect(Rank{0}, kAttempt);
}

void RendezvousSpoke::SayHello(tcp::socket socket) {
  connection_ =
      std::make_unique<ControlConnection>(std::move(socket), ControlConnection::kMaxAllBytes);
  connection_->Listen(
      [this](ControlKind kind, absl::string_view message) { OnMessage(kind, message); },
      [this](const absl::Status& why) {
        End(absl::UnavailableError(
            absl::StrCat(Hub(), " went away while the ranks met: ", std::string(why.message()))));
      });
  connection_->Send(ControlKind::kHello, options_.self.Encode());
}

void RendezvousSpoke::OnMessage(ControlKind kind, absl::string_view message) {
  if (kind == ControlKind::kRoster) return OnRoster(message);
  if (kind == ControlKind::kRefused) return End(DecodeStatus(message));
  End(absl::DataLossError(absl::StrCat(Hub(), ": unexpected control message")));
}

void RendezvousSpoke::OnRoster(absl::string_view message) {
  if (!finished_) return;
  const absl::StatusOr<std::vector<std::string>> parts = DecodeStrings(message, options_.self.size);
  if (!parts.ok()) return End(Annotate(parts.status(), Hub()));
  Gathering gathering;
  for (const std::string& part : *parts) {
    absl::StatusOr<ControlHello> rank = ControlHello::Decode(part);
    if (!rank.ok()) return End(Annotate(rank.status(), Hub()));
    if (rank->launcher_rank != gathering.ranks.size()) {
      return End(absl::DataLossError(absl::StrCat(Hub(), ": roster out of order")));
    }
    gathering.ranks.push_back(*std::move(rank));
  }
  connection_->Pause();
  loop_.Cancel(deadline_);
  // This is a call of the connection: it changes hands in a task of its own.
  loop_.Post([this, alive = alive_, gathering = std::move(gathering)]() mutable {
    if (!*alive || !finished_) return;
    gathering.connections.push_back(std::move(connection_));
    std::exchange(finished_, nullptr)(std::move(gathering));
  });
}

void RendezvousSpoke::OnDeadline() {
  if (connection_ != nullptr) {
    return End(absl::DeadlineExceededError(absl::StrCat(
        Hub(), " is there, but the ranks were not complete after ",
        absl::FormatDuration(options_.timeout), "; its message names those that are absent")));
  }
  End(absl::DeadlineExceededError(absl::StrCat(
      "launcher rank ", options_.self.launcher_rank, " did not reach ", Hub(), " within ",
      absl::FormatDuration(options_.timeout), ": ",
      last_.ok() ? "no answer" : std::string(last_.message()),
      "; check that it runs and that MASTER_ADDR and MASTER_PORT (or STRATA_RENDEZVOUS) name it")));
}

void RendezvousSpoke::End(absl::Status status) {
  if (!finished_) return;
  loop_.Cancel(deadline_);
  error_code ignored;
  socket_.close(ignored);
  std::exchange(finished_, nullptr)(std::move(status));
}

}  // namespace strata
