#include "comm/shm/shm_transport.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "comm/loop_calls.h"
#include "comm/shm/shm_connection.h"
#include "comm/wire_tag.h"
#include "kernels/status.h"

namespace strata {
namespace {

// What one task copies at most, so that the lane stays responsive.
constexpr size_t kCopyBytes = 1 << 20;

std::string Describe(Tag tag) {
  return absl::StrCat("operation ", tag.operation, " message ", tag.message);
}

absl::Status WrongBytes(Tag tag, uint64_t sent, uint64_t expected) {
  return absl::DataLossError(
      absl::StrCat(Describe(tag), ": sent ", sent, " bytes, the receiver expects ", expected));
}

absl::Status OutOfStep(Tag tag, uint32_t sent, uint32_t expected) {
  return absl::FailedPreconditionError(absl::StrCat("ranks out of step at ", Describe(tag),
                                                    ": order hash of the sender ", absl::Hex(sent),
                                                    ", of the receiver ", absl::Hex(expected)));
}

Tag TagOf(const ShmFrame& frame) { return {frame.operation, frame.message, frame.order}; }

}  // namespace

class ShmTransport::Endpoint final : public ShmConnection::Handler {
 public:
  Endpoint(ShmTransport& transport, Peer peer)
      : transport_(transport),
        label_(std::move(peer.name)),
        connection_(transport.loop_, peer.fd, *this) {}

  const absl::Status& lost() const { return lost_; }

  void Send(Tag tag, std::span<const std::byte> view, Done done) {
    ShmFrame frame{.operation = tag.operation,
                   .message = tag.message,
                   .order = tag.order,
                   .sequence = next_sequence_++,
                   .bytes = view.size()};
    const auto place = transport_.segments_.Find(view);
    if (!place && view.size() > ShmConnection::kMaxInlineBytes) {
      return PostDone(transport_.loop_, std::move(done),
                      absl::InvalidArgumentError(absl::StrCat("a message of ", view.size(),
                                                              " bytes outside shared memory")));
    }
    sends_.emplace(frame.sequence, PendingSend{tag, view.size(), std::move(done)});
    if (place) {
      frame.kind = ShmKind::kShared;
      frame.segment = place->segment;
      frame.offset = place->offset;
      connection_.Announce(transport_.segments_, place->segment);
      connection_.Queue(frame);
    } else {
      frame.kind = ShmKind::kInline;
      connection_.Queue(frame, view);
    }
  }

  void Recv(Tag tag, std::span<std::byte> view, Done done) {
    const uint64_t key = MatchKey(tag);
    Receive receive{tag.order, view, std::move(done)};
    const auto found = arrivals_.find(key);
    if (found == arrivals_.end()) {
      STRATA_CHECK(receives_.emplace(key, std::move(receive)).second);
      return;
    }
    Arrival arrival = std::move(found->second);
    arrivals_.erase(found);
    if (Admit(arrival.frame, receive)) StartCopy(std::move(arrival), std::move(receive));
  }

  // Every pending operation ends with `why`, and later ones if the peer is lost.
  void Fail(const absl::Status& why) {
    transport_.DropCopies(*this, why);
    auto sends = std::exchange(sends_, {});
    auto receives = std::exchange(receives_, {});
    arrivals_.clear();
    for (auto& [sequence, send] : sends) PostDone(transport_.loop_, std::move(send.done), why);
    for (auto& [key, receive] : receives) PostDone(transport_.loop_, std::move(receive.done), why);
    if (inline_ && inline_->receive)
      PostDone(transport_.loop_, std::move(inline_->receive->done), why);
    inline_.reset();
  }

  void Silence() { connection_.Silence(); }

  bool idle() const {
    return sends_.empty() && receives_.empty() && !(inline_ && inline_->receive) &&
           connection_.drained();
  }

  void FinishReceive(uint64_t sequence, uint64_t bytes, Done done) {
    connection_.Queue({.kind = ShmKind::kAck, .sequence = sequence});
    transport_.counters_.received_bytes += static_cast<int64_t>(bytes);
    std::move(done)(absl::OkStatus());
  }

 private:
  struct PendingSend {
    Tag tag;
    uint64_t bytes = 0;
    Done done;
  };
  struct Receive {
    uint32_t order = 0;
    std::span<std::byte> view;
    Done done;
  };
  struct Arrival {
    ShmFrame frame;
    const std::byte* source = nullptr;
    std::vector<std::byte> payload;  // holds `source` if it came inline
  };
  // The inline message whose payload is being read: into its receive, or aside.
  struct Inline {
    ShmFrame frame;
    std::optional<Receive> receive;
    std::vector<std::byte> payload;
    bool rejected = false;
  };

  absl::Status OnShared(const ShmFrame& frame, const std::byte* source) override {
    return Match(Arrival{frame, source, {}});
  }

  absl::StatusOr<std::byte*> OnInline(const ShmFrame& frame) override {
    inline_.emplace(Inline{frame, std::nullopt, {}, false});
    const auto found = receives_.find(MatchKey(TagOf(frame)));
    if (found != receives_.end()) {
      Receive receive = std::move(found->second);
      receives_.erase(found);
      if (Admit(frame, receive)) {
        inline_->receive = std::move(receive);
        return inline_->receive->view.data();
      }
      inline_->rejected = true;
    }
    inline_->payload.resize(frame.bytes);
    return inline_->payload.data();
  }

  void OnInlineEnd() override {
    Inline ended = std::move(*inline_);
    inline_.reset();
    if (ended.rejected) return;
    if (ended.receive) {
      FinishReceive(ended.frame.sequence, ended.frame.bytes, std::move(ended.receive->done));
      return;
    }
    const std::byte* source = ended.payload.data();
    const absl::Status matched = Match(Arrival{ended.frame, source, std::move(ended.payload)});
    // A message that was read whole cannot be handed back as an error of its frame.
    if (!matched.ok()) OnClosed(matched);
  }

  absl::Status OnReply(const ShmFrame& frame) override {
    const auto found = sends_.find(frame.sequence);
    if (found == sends_.end()) return absl::DataLossError("malformed frame: reply to nothing");
    PendingSend send = std::move(found->second);
    sends_.erase(found);
    absl::Status status;
    if (frame.kind == ShmKind::kAck) {
      transport_.counters_.sent_bytes += static_cast<int64_t>(send.bytes);
    } else if (frame.reject == ShmReject::kOrder) {
      status = OutOfStep(send.tag, send.tag.order, frame.order);
    } else {
      status = WrongBytes(send.tag, send.bytes, frame.bytes);
    }
    std::move(send.done)(Annotate(status, label_));
    return absl::OkStatus();
  }

  void OnDrained() override { transport_.EndCloseIfIdle(); }

  void OnClosed(absl::Status why) override {
    if (!lost_.ok()) return;
    connection_.Silence();
    lost_ = Annotate(why, label_);
    Fail(lost_);
    transport_.EndCloseIfIdle();
  }

  // False, and both ends are told, unless the message is what the receive expects.
  bool Admit(const ShmFrame& frame, Receive& receive) {
    ShmFrame reply{.kind = ShmKind::kReject,
                   .order = receive.order,
                   .sequence = frame.sequence,
                   .bytes = receive.view.size()};
    absl::Status status;
    if (frame.order != receive.order) {
      reply.reject = ShmReject::kOrder;
      status = OutOfStep(TagOf(frame), frame.order, receive.order);
    } else if (frame.bytes != receive.view.size()) {
      reply.reject = ShmReject::kBytes;
      status = WrongBytes(TagOf(frame), frame.bytes, receive.view.size());
    } else {
      return true;
    }
    connection_.Queue(reply);
    PostDone(transport_.loop_, std::move(receive.done), Annotate(status, label_));
    return false;
  }

  absl::Status Match(Arrival arrival) {
    const uint64_t key = MatchKey(TagOf(arrival.frame));
    const auto found = receives_.find(key);
    if (found == receives_.end()) {
      if (arrivals_.emplace(key, std::move(arrival)).second) return absl::OkStatus();
      return absl::DataLossError(absl::StrCat(Describe(TagOf(arrival.frame)), " was sent twice"));
    }
    Receive receive = std::move(found->second);
    receives_.erase(found);
    if (Admit(arrival.frame, receive)) StartCopy(std::move(arrival), std::move(receive));
    return absl::OkStatus();
  }

  void StartCopy(Arrival arrival, Receive receive) {
    transport_.AddCopy({.from = this,
                        .source = arrival.source,
                        .payload = std::move(arrival.payload),
                        .target = receive.view,
                        .sequence = arrival.frame.sequence,
                        .done = std::move(receive.done)});
  }

  ShmTransport& transport_;
  const std::string label_;
  absl::Status lost_;
  uint64_t next_sequence_ = 0;
  std::unordered_map<uint64_t, PendingSend> sends_;  // by sequence
  std::unordered_map<uint64_t, Receive> receives_;   // by MatchKey, not yet arrived
  std::unordered_map<uint64_t, Arrival> arrivals_;   // by MatchKey, not yet expected
  std::optional<Inline> inline_;
  ShmConnection connection_;
};

ShmTransport::ShmTransport(AsioLoop& loop, const MemorySegments& segments, std::vector<Peer> peers)
    : loop_(loop), segments_(segments) {
  STRATA_CHECK(loop_.InLoop());
  for (Peer& peer : peers) {
    const Rank rank = peer.rank;
    endpoints_.emplace(rank, std::make_unique<Endpoint>(*this, std::move(peer)));
  }
}

ShmTransport::~ShmTransport() {
  RunInLoop(loop_, [this] {
    *alive_ = false;
    for (auto& [rank, endpoint] : endpoints_) {
      endpoint->Fail(absl::AbortedError("the transport is gone"));
    }
    endpoints_.clear();
  });
}

ShmTransport::Endpoint& ShmTransport::Find(Rank peer) {
  STRATA_CHECK(loop_.InLoop() && !closing_);
  const auto found = endpoints_.find(peer);
  STRATA_CHECK(found != endpoints_.end());
  return *found->second;
}

void ShmTransport::Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) {
  Endpoint& endpoint = Find(peer);
  const absl::Status& bad = why_.ok() ? endpoint.lost() : why_;
  if (!bad.ok()) return PostDone(loop_, std::move(done), bad);
  endpoint.Send(OnWire(tag), view, std::move(done));
}

void ShmTransport::Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) {
  Endpoint& endpoint = Find(peer);
  const absl::Status& bad = why_.ok() ? endpoint.lost() : why_;
  if (!bad.ok()) return PostDone(loop_, std::move(done), bad);
  endpoint.Recv(OnWire(tag), view, std::move(done));
}

void ShmTransport::Abort(absl::Status why) {
  STRATA_CHECK(loop_.InLoop() && !why.ok());
  if (!why_.ok()) return;
  why_ = std::move(why);
  for (auto& [rank, endpoint] : endpoints_) {
    endpoint->Silence();
    endpoint->Fail(why_);
  }
  EndCloseIfIdle();
}

void ShmTransport::Close(Done done) {
  STRATA_CHECK(loop_.InLoop() && !closing_);
  closing_ = std::move(done);
  EndCloseIfIdle();
}

void ShmTransport::EndCloseIfIdle() {
  if (!closing_ || !copies_.empty()) return;
  for (const auto& [rank, endpoint] : endpoints_) {
    if (!endpoint->idle()) return;
  }
  // Posted: this may be a call of one of the connections that are let go.
  loop_.Post([this, alive = alive_] {
    if (!*alive || !closing_ || endpoints_closed_) return;
    endpoints_closed_ = true;
    endpoints_.clear();
    std::move(closing_)(absl::OkStatus());
  });
}

void ShmTransport::AddCopy(Copy copy) {
  copies_.push_back(std::move(copy));
  PostCopies();
}

void ShmTransport::PostCopies() {
  if (copies_posted_) return;
  copies_posted_ = true;
  loop_.Post([this, alive = alive_] {
    if (!*alive) return;
    copies_posted_ = false;
    RunCopies();
  });
}

void ShmTransport::RunCopies() {
  size_t budget = kCopyBytes;
  while (!copies_.empty()) {
    Copy& copy = copies_.front();
    const size_t bytes = std::min(budget, copy.target.size() - copy.copied);
    if (bytes > 0) std::memcpy(copy.target.data() + copy.copied, copy.source + copy.copied, bytes);
    copy.copied += bytes;
    budget -= bytes;
    if (copy.copied < copy.target.size()) return PostCopies();
    Copy ended = std::move(copy);
    copies_.pop_front();
    ended.from->FinishReceive(ended.sequence, ended.target.size(), std::move(ended.done));
    if (budget == 0 && !copies_.empty()) return PostCopies();
  }
  EndCloseIfIdle();
}

void ShmTransport::DropCopies(const Endpoint& from, const absl::Status& why) {
  for (Copy& copy : copies_) {
    if (copy.from == &from) PostDone(loop_, std::move(copy.done), why);
  }
  std::erase_if(copies_, [&from](const Copy& copy) { return copy.from == &from; });
}

}  // namespace strata
