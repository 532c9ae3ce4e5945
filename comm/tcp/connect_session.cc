#include "comm/tcp/connect_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/log.h"
#include "kernels/status.h"

namespace strata {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// Connections that may be in their handshake at once. The oldest makes room: an honest peer is done
// within a round trip.
constexpr size_t kMaxAccepting = 64;
constexpr int kMaxRefusalLines = 8;
constexpr absl::Duration kAcceptRetry = absl::Milliseconds(10);

absl::StatusOr<tcp::endpoint> ParseEndpoint(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  error_code error;
  const auto ip = boost::asio::ip::make_address_v4(address.substr(0, colon), error);
  if (colon == std::string::npos || error || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port == 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is not an address"));
  }
  return tcp::endpoint(ip, static_cast<uint16_t>(port));
}

std::string ToText(const tcp::endpoint& endpoint) {
  return absl::StrCat(endpoint.address().to_string(), ":", endpoint.port());
}

}  // namespace

ConnectSession::ConnectSession(AsioLoop& loop, Acceptor& acceptor, const TcpOptions& tcp_options,
                               ConnectOptions options, std::vector<PeerAddress> peers)
    : loop_(loop),
      acceptor_(acceptor),
      local_address_(acceptor.local_endpoint().address()),
      tcp_options_(tcp_options),
      options_(std::move(options)),
      peers_(std::move(peers)),
      sockets_(peers_.size()) {}

void ConnectSession::Start(Finished finished) {
  finished_ = std::move(finished);
  deadline_ = loop_.PostAt(loop_.Now() + options_.timeout,
                           [self = shared_from_this()] { self->OnDeadline(); });
  if (peers_.empty()) return Finish(std::vector<Socket>());
  AcceptNext();
  for (size_t i = 0; i < peers_.size() && finished_; ++i) {
    if (Index(peers_[i].rank) < Index(options_.self)) Dial(i);
  }
}

HandshakeIdentity ConnectSession::identity() const {
  return {.self = options_.self, .lane = options_.lane, .token = options_.token};
}

// Dialling

void ConnectSession::Dial(size_t peer) {
  const absl::StatusOr<tcp::endpoint> endpoint = ParseEndpoint(peers_[peer].address);
  if (!endpoint.ok()) return Finish(Annotate(endpoint.status(), PeerName(peers_[peer])));
  if (endpoint->address().is_loopback() != local_address_.is_loopback()) {
    return Finish(absl::InvalidArgumentError(
        absl::StrCat(PeerName(peers_[peer]), " is at ", ToText(*endpoint), ", this rank at ",
                     local_address_.to_string(),
                     ": a loopback address is no use to another host; set network.interface")));
  }
  auto socket = std::make_shared<Socket>(loop_.context());
  error_code error;
  socket->open(tcp::v4(), error);
  // Leaves by the chosen interface's address, whatever the default route is.
  if (!error) socket->bind(tcp::endpoint(local_address_, 0), error);
  if (error) {
    return Finish(absl::UnavailableError(
        absl::StrCat("bind to ", local_address_.to_string(), ": ", error.message())));
  }
  socket->async_connect(*endpoint, [self = shared_from_this(), peer,
                                    socket](const error_code& error) {
    if (!self->finished_) return;
    if (!error) return self->OnDialled(peer, std::move(*socket));
    self->Finish(absl::UnavailableError(absl::StrCat(
        PeerName(self->peers_[peer]), " at ", self->peers_[peer].address, ": ", error.message())));
  });
}

void ConnectSession::OnDialled(size_t peer, Socket socket) {
  auto handshake = std::make_shared<Handshake>(
      loop_, std::move(socket), identity(),
      [self = shared_from_this(), peer](absl::Status status, Socket connected, Rank) {
        if (!self->finished_) return;
        if (status.ok()) return self->Connected(peer, std::move(connected));
        self->Finish(Annotate(status, absl::StrCat(PeerName(self->peers_[peer]), " at ",
                                                   self->peers_[peer].address)));
      });
  handshake->Connect(peers_[peer].rank, options_.timeout);
}

// Accepting

void ConnectSession::AcceptNext() {
  acceptor_.async_accept(loop_.context(),
                         [self = shared_from_this()](const error_code& error, Socket socket) {
                           if (!self->finished_) return;
                           if (!error) {
                             self->OnAccepted(std::move(socket));
                             return self->AcceptNext();
                           }
                           // Out of descriptors, for example.
                           self->loop_.PostAt(self->loop_.Now() + kAcceptRetry, [self] {
                             if (self->finished_) self->AcceptNext();
                           });
                         });
}

void ConnectSession::OnAccepted(Socket socket) {
  error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return;
  auto handshake =
      std::make_shared<Handshake>(loop_, std::move(socket), identity(),
                                  [self = shared_from_this(), from = ToText(remote)](
                                      absl::Status status, Socket accepted, Rank rank) {
                                    if (self->finished_)
                                      self->OnHandshake(from, status, std::move(accepted), rank);
                                  });
  accepting_.push_back(handshake);
  handshake->Accept(std::min(tcp_options_.handshake_timeout, options_.timeout));
  if (accepting_.size() <= kMaxAccepting) return;
  const std::shared_ptr<Handshake> oldest = accepting_.front();
  accepting_.pop_front();
  oldest->Cancel(absl::ResourceExhaustedError("too many connections that prove nothing"));
}

void ConnectSession::OnHandshake(const std::string& from, const absl::Status& status, Socket socket,
                                 Rank rank) {
  accepting_.remove_if(
      [](const std::shared_ptr<Handshake>& handshake) { return handshake->ended(); });
  const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                 [rank](const PeerAddress& peer) { return peer.rank == rank; });
  const size_t index = static_cast<size_t>(peer - peers_.begin());
  if (status.ok() && peer != peers_.end() && !sockets_[index]) {
    return Connected(index, std::move(socket));
  }
  const absl::Status why =
      status.ok() ? absl::FailedPreconditionError(absl::StrCat(
                        "rank ", Index(rank), peer == peers_.end() ? " is no peer" : " is here"))
                  : status;
  ++refused_;
  last_refusal_ = absl::StrCat(from, ": ", why.message());
  // A member with another token is worth a line, the noise of port scanners is not.
  const bool member = why.code() == absl::StatusCode::kFailedPrecondition;
  Log(member && refused_ <= kMaxRefusalLines ? Severity::kWarning : Severity::kDebug,
      absl::StrCat("refused a connection from ", last_refusal_));
}

// Ends

void ConnectSession::Connected(size_t peer, Socket socket) {
  sockets_[peer] = std::move(socket);
  if (++connected_ < peers_.size()) return;
  std::vector<Socket> sockets;
  for (std::optional<Socket>& one : sockets_) sockets.push_back(*std::move(one));
  Finish(std::move(sockets));
}

void ConnectSession::OnDeadline() {
  std::vector<std::string> absent;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!sockets_[i]) absent.push_back(PeerName(peers_[i]));
  }
  std::string message = absl::StrCat(absl::StrJoin(absent, ", "), ": no connection within ",
                                     absl::FormatDuration(options_.timeout));
  if (refused_ > 0) {
    absl::StrAppend(&message, "; connections refused: ", refused_, ", the last from ",
                    last_refusal_);
  }
  Finish(absl::DeadlineExceededError(message));
}

void ConnectSession::Finish(absl::StatusOr<std::vector<Socket>> result) {
  Finished finished = std::exchange(finished_, nullptr);
  loop_.Cancel(deadline_);
  error_code ignored;
  acceptor_.close(ignored);
  for (const std::shared_ptr<Handshake>& handshake : accepting_) {
    handshake->Cancel(absl::CancelledError("no more connections are expected"));
  }
  accepting_.clear();
  sockets_.clear();
  std::move(finished)(std::move(result));
}

}  // namespace strata
