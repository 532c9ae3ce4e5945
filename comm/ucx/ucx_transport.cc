#include "comm/ucx/ucx_transport.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/awaited.h"
#include "comm/loop_calls.h"
#include "comm/ucx/ucx_peer.h"
#include "comm/ucx/ucx_tag.h"
#include "comm/ucx/ucx_worker.h"
#include "comm/wire_tag.h"
#include "kernels/log.h"
#include "kernels/status.h"

namespace strata {
namespace {

// Sends that are pending at an abort may end by themselves for so long.
constexpr absl::Duration kAbortGrace = absl::Seconds(1);
// How long the end of a transport waits for UCX to let go of its endpoints.
constexpr absl::Duration kDropTimeout = absl::Seconds(1);

class UcxTransport final : public Transport {
 public:
  UcxTransport(AsioLoop& loop, std::shared_ptr<UcxWorker> worker)
      : loop_(loop), worker_(std::move(worker)) {
    RunInLoop(loop_, [this] {
      worker_->OnReady([this](uint64_t tag) {
        const auto peer = peers_.find(SourceOf(tag));
        if (peer != peers_.end()) peer->second->OnReady(Unpack(tag));
      });
    });
  }

  ~UcxTransport() override {
    RunInLoop(loop_, [this] { Drop(); });
  }

  // In the loop. `met` is called per peer.
  void Open(Rank self, const PeerAddress& address, Done met) {
    auto peer = std::make_shared<UcxPeer>(loop_, worker_, self, address);
    peers_.emplace(address.rank, peer);
    peer->Open(std::move(met));
  }

  void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) override {
    if (UcxPeer* found = Find(peer, tag, done)) found->Send(OnWire(tag), view, std::move(done));
  }

  void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) override {
    if (UcxPeer* found = Find(peer, tag, done)) found->Recv(OnWire(tag), view, std::move(done));
  }

  void Abort(absl::Status why) override {
    STRATA_CHECK(loop_.InLoop() && !why.ok());
    for (auto& [rank, peer] : peers_) peer->Abort(why);
    if (abort_timer_) return;
    abort_timer_ = loop_.PostAt(loop_.Now() + kAbortGrace, [this] { EndAborted(); });
  }

  void Close(Done done) override {
    STRATA_CHECK(loop_.InLoop());
    if (peers_.empty()) return PostDone(loop_, std::move(done), absl::OkStatus());
    const std::function<void()> closed = AfterCalls(peers_.size(), std::move(done));
    for (auto& [rank, peer] : peers_) peer->Close(closed);
  }

  Counters counters() const override {
    STRATA_CHECK(loop_.InLoop());
    Counters sum;
    for (const auto& [rank, peer] : peers_) {
      sum.sent_bytes += peer->counters().sent_bytes;
      sum.received_bytes += peer->counters().received_bytes;
    }
    return sum;
  }

 private:
  // UCX has had time to give everything back. What it still holds it lets go of with the worker.
  void EndAborted() {
    const auto busy = [](const auto& entry) { return entry.second->busy(); };
    if (std::none_of(peers_.begin(), peers_.end(), busy)) return;
    worker_->Shutdown();
    for (auto& [rank, peer] : peers_) peer->EndAll();
  }

  void Drop() {
    if (abort_timer_) loop_.Cancel(*abort_timer_);
    for (auto& [rank, peer] : peers_) peer->Drop(absl::AbortedError("the transport is gone"));
    const absl::Time limit = loop_.Now() + kDropTimeout;
    const auto closing = [](const auto& entry) { return entry.second->closing(); };
    while (std::any_of(peers_.begin(), peers_.end(), closing) && loop_.Now() < limit) {
      worker_->ProgressNow();
    }
    worker_->Shutdown();
    for (auto& [rank, peer] : peers_) peer->EndAll();
    peers_.clear();
  }

  // Null, and `done` is told, when the call makes no sense.
  UcxPeer* Find(Rank peer, Tag tag, Done& done) {
    STRATA_CHECK(loop_.InLoop());
    const auto found = peers_.find(peer);
    absl::Status status = CheckTag(tag);
    if (found == peers_.end()) {
      status = absl::InvalidArgumentError(absl::StrCat("rank ", Index(peer), " is no peer"));
    }
    if (status.ok()) return found->second.get();
    PostDone(loop_, std::move(done), std::move(status));
    return nullptr;
  }

  AsioLoop& loop_;
  const std::shared_ptr<UcxWorker> worker_;
  std::map<Rank, std::shared_ptr<UcxPeer>> peers_;
  std::optional<TimerId> abort_timer_;
};

// The meeting of all peers, in the loop: ends with the first failure, when all have been met, or at
// the deadline.
class Meeting : public std::enable_shared_from_this<Meeting> {
 public:
  Meeting(AsioLoop& loop, Done ended) : loop_(loop), ended_(std::move(ended)) {}

  void Start(UcxTransport& transport, Rank self, const std::vector<PeerAddress>& peers,
             absl::Duration timeout) {
    for (const PeerAddress& peer : peers) absent_.insert(PeerName(peer));
    deadline_ = loop_.PostAt(loop_.Now() + timeout, [self = shared_from_this(), timeout] {
      self->End(absl::DeadlineExceededError(absl::StrCat(absl::StrJoin(self->absent_, ", "),
                                                         ": no connection within ",
                                                         absl::FormatDuration(timeout))));
    });
    if (absent_.empty()) return End(absl::OkStatus());
    for (const PeerAddress& peer : peers) {
      transport.Open(self, peer,
                     [meeting = shared_from_this(), name = PeerName(peer)](absl::Status status) {
                       meeting->absent_.erase(name);
                       if (!status.ok() || meeting->absent_.empty()) meeting->End(status);
                     });
    }
  }

 private:
  void End(const absl::Status& status) {
    if (!ended_) return;
    loop_.Cancel(deadline_);
    std::move(std::exchange(ended_, nullptr))(status);
  }

  AsioLoop& loop_;
  Done ended_;
  TimerId deadline_{};
  std::set<std::string> absent_;
};

}  // namespace

UcxEndpoint::UcxEndpoint(AsioLoop& loop, std::shared_ptr<UcxWorker> worker)
    : loop_(loop), worker_(std::move(worker)), address_(worker_->address()) {}

absl::StatusOr<std::unique_ptr<TransportFactory>> UcxEndpoint::Create(AsioLoop& loop,
                                                                      const Interface& interface) {
  absl::StatusOr<std::shared_ptr<UcxWorker>> worker;
  RunInLoop(loop, [&] { worker = UcxWorker::Create(loop, interface); });
  if (!worker.ok()) return worker.status();
  Log(Severity::kInfo, absl::StrCat("UCX on ", interface.name, " ", interface.address,
                                    ": its traffic is not authenticated; on a network with "
                                    "strangers set network.transport to tcp"));
  return absl::WrapUnique<TransportFactory>(new UcxEndpoint(loop, *std::move(worker)));
}

UcxEndpoint::~UcxEndpoint() {
  if (worker_ == nullptr) return;
  RunInLoop(loop_, [this] { worker_->Shutdown(); });
}

absl::StatusOr<std::unique_ptr<Transport>> UcxEndpoint::Connect(const ConnectOptions& options,
                                                                std::vector<PeerAddress> peers) {
  STRATA_CHECK(!loop_.InLoop());
  if (worker_ == nullptr) return absl::FailedPreconditionError("Connect is called twice");
  auto transport = std::make_unique<UcxTransport>(loop_, std::exchange(worker_, nullptr));
  for (const PeerAddress& peer : peers) {
    if (Index(peer.rank) >= kMaxUcxRanks || Index(options.self) >= kMaxUcxRanks) {
      return absl::InvalidArgumentError(absl::StrCat("the ucx transport joins at most ",
                                                     kMaxUcxRanks,
                                                     " ranks; set network.transport to tcp"));
    }
  }
  Awaited<absl::Status> ended;
  loop_.Post([&] {
    auto meeting =
        std::make_shared<Meeting>(loop_, [&](absl::Status met) { ended.Set(std::move(met)); });
    meeting->Start(*transport, options.self, peers, options.timeout);
  });
  STRATA_RETURN_IF_ERROR(ended.Wait());
  return transport;
}

}  // namespace strata
