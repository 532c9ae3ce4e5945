#include "comm/world_lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/loop_calls.h"
#include "comm/shm/shm_listener.h"
#include "kernels/status.h"

namespace strata {

WorldLane::WorldLane(const std::string& name)
    : name_(name),
      loop_("strata-" + name),
      stream_(std::make_unique<HostStream>([this](Task task) { loop_.Post(std::move(task)); })) {}

WorldLane::~WorldLane() {
  RunInLoop(loop_, [this] {
    runner_.reset();
    transports_.clear();
  });
  node_.reset();
  network_.reset();
}

absl::Status WorldLane::ListenInNode(const MemorySegments& segments) {
  STRATA_ASSIGN_OR_RETURN(node_, ShmListener::Create(loop_, segments));
  return absl::OkStatus();
}

absl::Status WorldLane::ListenBetweenNodes(const std::string& transport,
                                           const Interface& interface) {
  STRATA_ASSIGN_OR_RETURN(network_, MakeTransportFactory(transport, loop_, interface));
  return absl::OkStatus();
}

absl::Status WorldLane::Connect(ConnectOptions options, Peers peers, absl::Duration patience) {
  options.lane = name_;
  const auto connect = [&](TransportFactory& factory, std::vector<PeerAddress> to,
                           absl::string_view level) -> absl::Status {
    absl::StatusOr<std::unique_ptr<Transport>> transport = factory.Connect(options, std::move(to));
    if (!transport.ok()) {
      return Annotate(transport.status(), absl::StrCat(name_, " lane: level ", level));
    }
    transports_.push_back(
        std::make_unique<PatientTransport>(loop_, *std::move(transport), patience));
    return absl::OkStatus();
  };
  STRATA_RETURN_IF_ERROR(connect(*node_, std::move(peers.node), "node"));
  if (network_ == nullptr) return absl::OkStatus();
  return connect(*network_, std::move(peers.network), "cluster");
}

void WorldLane::Start(PlanRunner::Options options) {
  std::vector<Transport*> by_level(options.credit_bytes.size(), transports_.back().get());
  by_level[0] = transports_.front().get();
  RunInLoop(loop_, [&] {
    runner_ =
        std::make_unique<PlanRunner>(loop_, *stream_, std::move(by_level), std::move(options));
  });
}

void WorldLane::Close(absl::Status why) {
  RunInLoop(loop_, [&] {
    runner_->Abort(std::move(why));
    transports_.clear();
  });
  RunInLoop(loop_, [] {});  // what the transports had pending has ended in tasks before this one
}

}  // namespace strata
