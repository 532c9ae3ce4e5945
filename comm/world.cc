#include "comm/world.h"

#include <algorithm>
#include <utility>

#include "comm/awaited.h"
#include "comm/control/membership.h"
#include "comm/control/rendezvous.h"
#include "comm/interfaces.h"
#include "comm/loop_calls.h"
#include "comm/numbering.h"
#include "comm/this_host.h"
#include "comm/world_lane.h"
#include "kernels/log.h"
#include "kernels/status.h"

namespace strata {
namespace {

// Within a node a message takes no memory until its receiver copies it.
constexpr int64_t kNodeCredit = int64_t{1} << 40;
constexpr int64_t kNetworkCredit = int64_t{2} << 20;

// How long a broken connection waits for the verdict that explains it.
absl::Duration Patience(const WorldOptions& options) {
  return options.heartbeat_timeout + absl::Seconds(2);
}

// All ranks are there when they connect. Shorter than `timeout`, so that one that dies just then
// does not hold up the others.
absl::Duration ConnectTimeout(const WorldOptions& options) {
  return std::min(options.timeout,
                  options.heartbeat_timeout + options.size * absl::Milliseconds(10));
}

absl::Status Check(const WorldOptions& options) {
  if (options.size < 1 || options.launcher_rank < 0 || options.launcher_rank >= options.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "launcher rank ", options.launcher_rank, " is not in a world of ", options.size, " ranks"));
  }
  if (options.timeout <= absl::ZeroDuration() ||
      options.heartbeat_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout ", absl::FormatDuration(options.timeout), " and heartbeat timeout ",
                     absl::FormatDuration(options.heartbeat_timeout), " must be more than zero"));
  }
  return absl::OkStatus();
}

class JoinedWorld final : public World {
 public:
  explicit JoinedWorld(const WorldOptions& options) : options_(options) {}
  ~JoinedWorld() override;

  absl::Status Start();

  const Topology& topology() const override { return topology_; }
  Rank self() const override { return Rank{self_}; }
  const std::string& host(Rank rank) const override { return hosts_[Index(rank)]; }
  Loop& control() override { return control_; }
  SharedMemory& shared_memory() override { return segments_; }
  Lane gather() override { return gather_.view(); }
  Lane reduce() override { return reduce_.view(); }
  void OnLoss(absl::AnyInvocable<void(absl::Status) &&> lost) override;
  absl::Status Leave(absl::Status why) override;
  void CloseLanes(absl::Status why) override {
    gather_.Close(why);
    reduce_.Close(why);
  }

 private:
  using Shares = absl::StatusOr<std::vector<std::string>>;

  absl::StatusOr<Gathering> Meet();
  absl::Status Number(Gathering gathering);
  absl::Status Connect();
  absl::Status StartLanes();
  Shares Exchange(std::string mine);
  bool SharesNode(int rank) const {
    return topology_.Group(Rank{rank}, 0) == topology_.Group(Rank{self_}, 0);
  }

  // On the control loop.
  void OnVerdict(absl::Status verdict);
  void AbortLanes();
  void ReportLoss();

  const WorldOptions options_;
  MemorySegments segments_;
  AsioLoop control_{"strata-control"};
  WorldLane gather_{"gather"};
  WorldLane reduce_{"reduce"};
  Topology topology_ = Topology::Uniform(1, 1);
  int self_ = 0;
  std::vector<std::string> hosts_, names_;  // by position

  // Of the control loop.
  std::unique_ptr<Membership> membership_;
  absl::Status verdict_;
  std::shared_ptr<Awaited<Shares>> exchange_;
  bool lanes_started_ = false;
  int lanes_to_abort_ = 0;
  bool reported_ = false;
  absl::AnyInvocable<void(absl::Status) &&> lost_;
};

JoinedWorld::~JoinedWorld() {
  // No verdict any more, then no lane that works on one, then none of their last tasks.
  RunInLoop(control_, [this] { membership_.reset(); });
  RunInLoop(gather_.loop(), [] {});
  RunInLoop(reduce_.loop(), [] {});
  RunInLoop(control_, [this] { lost_ = nullptr; });
}

absl::Status JoinedWorld::Start() {
  STRATA_ASSIGN_OR_RETURN(Gathering gathering, Meet());
  STRATA_RETURN_IF_ERROR(Number(std::move(gathering)));
  absl::Status status = Connect();
  if (status.ok()) status = StartLanes();
  // Nobody goes on before all can.
  if (status.ok()) status = Exchange("").status();
  if (status.ok()) return status;
  // A broken connection is what a death looks like from here. Whose it was the verdict says, which
  // comes as soon as all others have connected or failed; told first, this rank would be blamed.
  if (absl::IsUnavailable(status)) Exchange("").IgnoreError();
  const absl::Status verdict = Leave(status);
  // Where this rank itself has something to be corrected, that is said; else why the world ended.
  const bool consequence = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return consequence ? Annotate(verdict.ok() ? status : verdict, "connect the ranks") : status;
}

absl::StatusOr<Gathering> JoinedWorld::Meet() {
  ControlHello self{.launcher_rank = static_cast<uint32_t>(options_.launcher_rank),
                    .size = static_cast<uint32_t>(options_.size),
                    .host = HostName(),
                    .node = options_.node.empty() ? NodeName() : options_.node,
                    .fingerprint = options_.fingerprint};
  if (options_.size == 1) {
    Gathering alone;
    alone.ranks.push_back(std::move(self));
    alone.connections.emplace_back();
    return alone;
  }
  return MeetRanks(control_, {.self = std::move(self),
                              .host = options_.rendezvous_host,
                              .port = options_.rendezvous_port,
                              .token = options_.token,
                              .timeout = options_.timeout});
}

absl::Status JoinedWorld::Number(Gathering gathering) {
  std::vector<std::string> nodes;
  for (const ControlHello& rank : gathering.ranks) nodes.push_back(rank.node);
  const Numbering numbering = NumberRanks(nodes);
  self_ = numbering.position[options_.launcher_rank];
  for (int position = 0; position < options_.size; ++position) {
    const int launcher = numbering.launcher[position];
    hosts_.push_back(gathering.ranks[launcher].host);
    names_.push_back(
        absl::StrCat("rank ", position, " (host ", hosts_.back(),
                     launcher == position ? "" : absl::StrCat(", launcher rank ", launcher), ")"));
  }
  // Launcher rank 0 is always at position 0, and the hub.
  if (self_ == 0) {
    std::vector<std::unique_ptr<ControlConnection>> by_position(options_.size);
    for (int position = 0; position < options_.size; ++position) {
      by_position[position] = std::move(gathering.connections[numbering.launcher[position]]);
    }
    gathering.connections = std::move(by_position);
  }
  Membership::Options membership{
      .self = self_, .names = names_, .heartbeat_timeout = options_.heartbeat_timeout};
  membership.on_verdict = [this](absl::Status verdict) { OnVerdict(std::move(verdict)); };
  RunInLoop(control_, [&] {
    membership_ =
        Membership::Create(control_, std::move(gathering.connections), std::move(membership));
  });
  const int nodes_count = static_cast<int>(numbering.node_sizes.size());
  absl::StatusOr<Topology> topology =
      Topology::Create({Level{.name = "node", .children = numbering.node_sizes},
                        Level{.name = "cluster", .children = {nodes_count}}});
  STRATA_CHECK(topology.ok());
  topology_ = *std::move(topology);
  return absl::OkStatus();
}

absl::Status JoinedWorld::Connect() {
  const bool cluster = topology_.group_count(0) > 1;
  Interface interface;
  if (cluster) {
    STRATA_ASSIGN_OR_RETURN(interface,
                            ResolveInterface(options_.interface, options_.rendezvous_host));
    if (options_.token.empty() && self_ == 0) {
      Log(Severity::kWarning,
          absl::StrCat("no job token: whoever reaches ", options_.rendezvous_host, ":",
                       options_.rendezvous_port,
                       " may join; set STRATA_TOKEN to one random value on all ranks"));
    }
  }
  WorldLane* lanes[] = {&gather_, &reduce_};
  std::vector<std::string> mine;
  for (WorldLane* lane : lanes) {
    STRATA_RETURN_IF_ERROR(lane->ListenInNode(segments_));
    if (cluster) {
      STRATA_RETURN_IF_ERROR(lane->ListenBetweenNodes(options_.transport, interface));
    }
    mine.push_back(lane->node_address());
    mine.push_back(lane->network_address());
  }
  STRATA_ASSIGN_OR_RETURN(const std::vector<std::string> all, Exchange(EncodeStrings(mine)));
  WorldLane::Peers peers[2];
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == self_) continue;
    STRATA_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, DecodeStrings(all[rank], 4));
    const bool near = SharesNode(rank);
    for (int lane = 0; lane < 2; ++lane) {
      auto& to = near ? peers[lane].node : peers[lane].network;
      to.push_back({Rank{rank}, addresses[2 * lane + (near ? 0 : 1)], hosts_[rank]});
    }
  }
  for (int lane = 0; lane < 2; ++lane) {
    STRATA_RETURN_IF_ERROR(lanes[lane]->Connect(
        {.self = Rank{self_}, .token = options_.token, .timeout = ConnectTimeout(options_)},
        std::move(peers[lane]), Patience(options_)));
  }
  return absl::OkStatus();
}

absl::Status JoinedWorld::StartLanes() {
  PlanRunner::Options runner;
  runner.credit_bytes = options_.credit_bytes;
  if (runner.credit_bytes.empty()) runner.credit_bytes = {kNodeCredit, kNetworkCredit};
  for (const Level& level : topology_.levels()) runner.level_names.push_back(level.name);
  if (runner.credit_bytes.size() != runner.level_names.size()) {
    return absl::InvalidArgumentError(absl::StrCat("credits for ", runner.credit_bytes.size(),
                                                   " levels, the topology has ",
                                                   runner.level_names.size()));
  }
  runner.rank_name = [names = names_](Rank rank) { return names[Index(rank)]; };
  gather_.Start(runner);
  reduce_.Start(std::move(runner));
  RunInLoop(control_, [this] {
    lanes_started_ = true;
    if (!verdict_.ok()) AbortLanes();
  });
  return absl::OkStatus();
}

JoinedWorld::Shares JoinedWorld::Exchange(std::string mine) {
  auto result = std::make_shared<Awaited<Shares>>();
  RunInLoop(control_, [&] {
    exchange_ = result;
    if (!verdict_.ok()) return result->Set(verdict_);
    membership_->Exchange(std::move(mine), [result](std::vector<std::string> shares) {
      result->Set(std::move(shares));
    });
  });
  return result->Wait();
}

void JoinedWorld::OnVerdict(absl::Status verdict) {
  verdict_ = std::move(verdict);
  if (exchange_ != nullptr) exchange_->Set(verdict_);
  if (lanes_started_) AbortLanes();
}

void JoinedWorld::AbortLanes() {
  lanes_to_abort_ = 2;
  for (WorldLane* lane : {&gather_, &reduce_}) {
    lane->loop().Post([this, lane, why = verdict_] {
      lane->view().runner->Abort(why);
      control_.Post([this] {
        if (--lanes_to_abort_ == 0) ReportLoss();
      });
    });
  }
}

void JoinedWorld::ReportLoss() {
  const bool aborted = !verdict_.ok() && lanes_started_ && lanes_to_abort_ == 0;
  if (!aborted || !lost_ || reported_) return;
  reported_ = true;
  std::exchange(lost_, nullptr)(verdict_);
}

void JoinedWorld::OnLoss(absl::AnyInvocable<void(absl::Status) &&> lost) {
  control_.Post([this, lost = std::move(lost)]() mutable {
    lost_ = std::move(lost);
    ReportLoss();
  });
}

absl::Status JoinedWorld::Leave(absl::Status why) {
  Awaited<absl::Status> left;
  const absl::Status reason = why;
  RunInLoop(control_, [&] {
    membership_->Leave(std::move(why), [&left](absl::Status status) { left.Set(status); });
  });
  const absl::Status status = left.Wait();
  const absl::Status end = status.ok() ? reason : status;
  if (!end.ok() && gather_.view().runner != nullptr && reduce_.view().runner != nullptr) {
    for (WorldLane* lane : {&gather_, &reduce_}) {
      RunInLoop(lane->loop(), [&] { lane->view().runner->Abort(end); });
    }
  }
  RunInLoop(control_, [this] { lost_ = nullptr; });  // what it refers to may go now
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<World>> World::Join(const WorldOptions& options) {
  STRATA_RETURN_IF_ERROR(Check(options));
  auto world = std::make_unique<JoinedWorld>(options);
  STRATA_RETURN_IF_ERROR(world->Start());
  return std::unique_ptr<World>(std::move(world));
}

}  // namespace strata
