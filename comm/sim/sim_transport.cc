#include "comm/sim/sim_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/sim/sim_network.h"
#include "kernels/status.h"

namespace strata {

SimTransport::SimTransport(SimNetwork& network, Rank self, int lane, SimLoop& loop)
    : network_(network), self_(self), lane_(lane), loop_(loop) {}

SimTransport::~SimTransport() {
  for (auto& message : sends_) message->cancelled = true;
  network_.Remove(lane_, self_);
}

std::string SimTransport::PeerName(Rank peer) const {
  return absl::StrCat("peer ", Index(peer), " (host ", network_.HostName(peer), ")");
}

absl::Status SimTransport::StatusWith(Rank peer) const {
  if (!aborted_.ok()) return aborted_;
  const auto lost = lost_.find(Index(peer));
  return lost == lost_.end() ? absl::OkStatus() : lost->second;
}

void SimTransport::End(Done done, absl::Status status) {
  loop_.Post([done = std::move(done), status = std::move(status)]() mutable {
    std::move(done)(std::move(status));
  });
}

void SimTransport::Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) {
  STRATA_CHECK(loop_.InLoop() && !closing_ && peer != self_);
  if (absl::Status status = StatusWith(peer); !status.ok()) {
    return End(std::move(done), std::move(status));
  }
  auto message = std::make_shared<SimMessage>();
  message->sender = this;
  message->from = self_;
  message->to = peer;
  message->lane = lane_;
  message->tag = tag;
  message->view = view;
  message->sent = std::move(done);
  sends_.push_back(message);
  network_.Send(std::move(message), loop_.Now());
}

void SimTransport::OnSent(SimMessage& message) {
  const auto found = std::find_if(sends_.begin(), sends_.end(),
                                  [&](const auto& send) { return send.get() == &message; });
  STRATA_CHECK(found != sends_.end());
  sends_.erase(found);
  counters_.sent_bytes += static_cast<int64_t>(message.view.size());
  End(std::move(message.sent), absl::OkStatus());
  MaybeClosed();
}

void SimTransport::Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) {
  STRATA_CHECK(loop_.InLoop() && !closing_ && peer != self_);
  if (absl::Status status = StatusWith(peer); !status.ok()) {
    return End(std::move(done), std::move(status));
  }
  const Key key(Index(peer), tag.operation, tag.message);
  Receive receive{tag, view, std::move(done)};
  const auto arrived = unexpected_.find(key);
  if (arrived == unexpected_.end()) {
    STRATA_CHECK(receives_.emplace(key, std::move(receive)).second);
    return;
  }
  network_.world().Probe("message before its receive");
  const auto message = std::move(arrived->second);
  unexpected_.erase(arrived);
  Finish(std::move(receive), message);
}

void SimTransport::OnArrival(std::shared_ptr<SimMessage> message) {
  if (!StatusWith(message->from).ok()) return;
  const Key key(Index(message->from), message->tag.operation, message->tag.message);
  const auto found = receives_.find(key);
  if (found == receives_.end()) {
    return KeepEarly(std::move(message));
  }
  Receive receive = std::move(found->second);
  receives_.erase(found);
  Finish(std::move(receive), message);
  MaybeClosed();
}

void SimTransport::KeepEarly(std::shared_ptr<SimMessage> message) {
  int64_t& stored = early_bytes_[Index(message->from)];
  const auto bytes = static_cast<int64_t>(message->view.size());
  if (bytes <= network_.early_bytes() - stored) {
    stored += bytes;
    message->stored = true;
    network_.Accept(message);
  } else {
    network_.world().Probe("send waits for its receive");
  }
  const Key key(Index(message->from), message->tag.operation, message->tag.message);
  STRATA_CHECK(unexpected_.emplace(key, std::move(message)).second);
}

void SimTransport::Finish(Receive receive, const std::shared_ptr<SimMessage>& arrived) {
  const SimMessage& message = *arrived;
  if (message.stored) {
    early_bytes_[Index(message.from)] -= static_cast<int64_t>(message.view.size());
  } else {
    network_.Accept(arrived);
  }
  const std::string peer = PeerName(message.from);
  const Tag& tag = message.tag;
  if (receive.tag.order != tag.order) {
    return End(std::move(receive.done),
               absl::FailedPreconditionError(absl::StrFormat(
                   "%s: operation %d message %d has order %03x there, %03x here: the ranks have "
                   "issued different operations",
                   peer, tag.operation, tag.message, tag.order, receive.tag.order)));
  }
  if (receive.view.size() != message.view.size()) {
    return End(std::move(receive.done),
               absl::DataLossError(absl::StrCat(peer, ": operation ", tag.operation, " message ",
                                                tag.message, " has ", message.view.size(),
                                                " bytes there, ", receive.view.size(), " here")));
  }
  if (!receive.view.empty()) {
    std::memcpy(receive.view.data(), message.payload.get(), receive.view.size());
  }
  counters_.received_bytes += static_cast<int64_t>(receive.view.size());
  End(std::move(receive.done), absl::OkStatus());
}

void SimTransport::OnLoss(Rank peer, const std::string& why) {
  if (!StatusWith(peer).ok()) return;
  const absl::Status status = absl::UnavailableError(absl::StrCat(PeerName(peer), ": ", why));
  lost_.emplace(Index(peer), status);
  FailPending(Index(peer), status);
}

void SimTransport::Abort(absl::Status why) {
  STRATA_CHECK(!why.ok());
  if (!aborted_.ok()) return;
  aborted_ = std::move(why);
  FailPending(-1, aborted_);
  network_.BreakConnections(self_, lane_,
                            absl::StrCat("gave up: ", std::string(aborted_.message())));
}

void SimTransport::FailPending(int32_t peer, const absl::Status& why) {
  const auto concerns = [peer](int32_t other) { return peer < 0 || peer == other; };
  for (auto it = receives_.begin(); it != receives_.end();) {
    if (!concerns(std::get<0>(it->first))) {
      ++it;
      continue;
    }
    End(std::move(it->second.done), why);
    it = receives_.erase(it);
  }
  std::erase_if(unexpected_, [&](const auto& entry) { return concerns(std::get<0>(entry.first)); });
  std::erase_if(sends_, [&](const std::shared_ptr<SimMessage>& message) {
    if (!concerns(Index(message->to))) return false;
    message->cancelled = true;
    End(std::move(message->sent), why);
    return true;
  });
  MaybeClosed();
}

void SimTransport::Close(Done done) {
  STRATA_CHECK(loop_.InLoop() && !closing_);
  closing_ = true;
  closed_ = std::move(done);
  MaybeClosed();
}

void SimTransport::MaybeClosed() {
  if (closed_ == nullptr || !sends_.empty() || !receives_.empty()) return;
  End(std::move(closed_), aborted_);
}

}  // namespace strata
