#include "comm/sim/sim_network.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {
namespace {

absl::Duration TimeOnWire(int64_t bytes, int64_t bytes_per_second) {
  if (bytes_per_second == 0) return absl::ZeroDuration();
  return absl::Nanoseconds(static_cast<double>(bytes) * 1e9 /
                           static_cast<double>(bytes_per_second));
}

}  // namespace

SimNetwork::SimNetwork(SimWorld& world, Topology topology, const Options& options)
    : world_(world),
      topology_(std::move(topology)),
      options_(options),
      last_arrival_(topology_.size() * topology_.size(), absl::InfinitePast()),
      dead_(topology_.size(), false) {
  for (int level = 0; level < topology_.level_count(); ++level) {
    int children = 0;
    first_child_.emplace_back();
    for (int group = 0; group < topology_.group_count(level); ++group) {
      first_child_.back().push_back(children);
      children += static_cast<int>(topology_.Children(level, group).size());
    }
    connections_.emplace_back(children);
  }
}

int SimNetwork::Child(Rank rank, int level) const {
  return first_child_[level][topology_.Group(rank, level)] + topology_.ChildIndex(rank, level);
}

SimTransport*& SimNetwork::At(int lane, Rank rank) {
  if (lane >= static_cast<int>(transports_.size())) {
    transports_.resize(lane + 1, std::vector<SimTransport*>(topology_.size()));
  }
  return transports_[lane][Index(rank)];
}

std::unique_ptr<SimTransport> SimNetwork::MakeTransport(Rank self, int lane, SimLoop& loop) {
  STRATA_CHECK(At(lane, self) == nullptr);
  std::unique_ptr<SimTransport> transport(new SimTransport(*this, self, lane, loop));
  At(lane, self) = transport.get();
  return transport;
}

std::string SimNetwork::HostName(Rank rank) const {
  return absl::StrCat("n", topology_.Group(rank, 0));
}

void SimNetwork::Send(std::shared_ptr<SimMessage> message, absl::Time when) {
  if (when <= world_.Now()) return Enter(message);
  world_.At(when, [this, message = std::move(message)] { Enter(message); });
}

void SimNetwork::Enter(const std::shared_ptr<SimMessage>& message) {
  if (message->cancelled) return;
  const int level = topology_.LevelBetween(message->from, message->to);
  const Link& link = topology_.levels()[level].link;
  Connection& connection = connections_[level][Child(message->from, level)];
  const absl::Time start = std::max(world_.Now(), connection.egress_free);
  connection.egress_free =
      start + TimeOnWire(static_cast<int64_t>(message->view.size()), link.bytes_per_second);
  connection.sent_bytes += static_cast<int64_t>(message->view.size());
  world_.At(connection.egress_free, [this, message] { Leave(message); });

  absl::Time& last = last_arrival_[Index(message->from) * topology_.size() + Index(message->to)];
  last = std::max(last, start + link.latency + world_.RandomUpTo(options_.message_delay));
  world_.At(last, [this, message, level] { ReachIngress(message, level); });
}

void SimNetwork::Leave(const std::shared_ptr<SimMessage>& message) {
  if (message->cancelled) return;
  message->payload.reset(new std::byte[message->view.size()]);
  if (!message->view.empty()) {
    std::memcpy(message->payload.get(), message->view.data(), message->view.size());
  }
  if (options_.early_bytes == kUnlimited) message->sender->OnSent(*message);
}

void SimNetwork::ReachIngress(const std::shared_ptr<SimMessage>& message, int level) {
  if (message->cancelled) return;
  Connection& connection = connections_[level][Child(message->to, level)];
  connection.ingress_free = std::max(world_.Now(), connection.ingress_free) +
                            TimeOnWire(static_cast<int64_t>(message->view.size()),
                                       topology_.levels()[level].link.bytes_per_second);
  world_.At(connection.ingress_free, [this, message] { Arrive(message); });
}

void SimNetwork::Arrive(const std::shared_ptr<SimMessage>& message) {
  if (message->cancelled) return;
  SimTransport* receiver = At(message->lane, message->to);
  if (receiver != nullptr && !dead_[Index(message->to)]) receiver->OnArrival(message);
}

void SimNetwork::Accept(std::shared_ptr<SimMessage> message) {
  if (options_.early_bytes == kUnlimited || message->cancelled) return;
  const int level = topology_.LevelBetween(message->from, message->to);
  const absl::Time when = world_.Now() + topology_.levels()[level].link.latency;
  world_.At(when, [message = std::move(message)] {
    if (!message->cancelled) message->sender->OnSent(*message);
  });
}

void SimNetwork::Stall(Rank rank, int level, absl::Duration length) {
  world_.Probe("link stall");
  Connection& connection = connections_[level][Child(rank, level)];
  connection.egress_free = std::max(connection.egress_free, world_.Now()) + length;
  connection.ingress_free = std::max(connection.ingress_free, world_.Now()) + length;
}

void SimNetwork::Kill(Rank rank, Death death) {
  if (dead_[Index(rank)]) return;
  world_.Probe("kill");
  dead_[Index(rank)] = true;
  for (auto& lane : transports_) {
    if (lane[Index(rank)] == nullptr) continue;
    for (auto& message : lane[Index(rank)]->sends_) message->cancelled = true;
  }
  if (death == Death::kReset) {
    BreakConnections(rank, -1, "connection reset");
  }
}

void SimNetwork::BreakConnections(Rank rank, int lane, const std::string& why) {
  for (int peer = 0; peer < topology_.size(); ++peer) {
    if (peer == Index(rank) || dead_[peer]) continue;
    const Link& link = topology_.levels()[topology_.LevelBetween(rank, Rank{peer})].link;
    const absl::Time when = world_.Now() + link.latency + world_.RandomUpTo(options_.message_delay);
    world_.At(when, [this, rank, peer, lane, why] {
      for (int l = 0; l < static_cast<int>(transports_.size()); ++l) {
        SimTransport* transport = transports_[l][peer];
        if (transport == nullptr || dead_[peer] || (lane >= 0 && l != lane)) continue;
        transport->OnLoss(rank, why);
      }
    });
  }
}

}  // namespace strata
