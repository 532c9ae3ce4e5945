#include "cli/bench/operation.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

// Child groups of the outermost level: nodes, in a cluster of nodes.
std::span<const RankSpan> OutermostGroups(const Topology& topology) {
  return topology.Children(topology.level_count() - 1, 0);
}

absl::Status AddStage(absl::StatusOr<Plan> plan, Operation& operation) {
  if (!plan.ok()) return plan.status();
  operation.stages.push_back(std::make_shared<const Plan>(*std::move(plan)));
  return absl::OkStatus();
}

absl::Status AddShardedStages(const Topology& topology, const PlanOptions& plan, Rank self,
                              Operation& operation) {
  const LevelSet all = LevelSet::All(topology.level_count());
  STRATA_ASSIGN_OR_RETURN(operation.shards,
                          MakeUnitShards(topology, Layout{"custom", all, all, all},
                                         operation.bytes / SizeOf(operation.dtype)));
  const UnitShards& shards = *operation.shards;
  if (operation.kind != BenchKind::kAllGather) {
    STRATA_RETURN_IF_ERROR(
        AddStage(PlanReduce(topology, shards.full, shards.reduced, all, self, plan), operation));
  }
  if (operation.kind == BenchKind::kReduceScatter) return absl::OkStatus();
  return AddStage(PlanGather(topology, shards.reduced, shards.full, self, plan), operation);
}

}  // namespace

int64_t Operation::between_bytes() const { return stages.size() > 1 ? stages[0]->output_bytes : 0; }

int64_t Operation::scratch_bytes() const {
  int64_t most = 0;
  for (const auto& stage : stages) most = std::max(most, stage->scratch_bytes);
  return most;
}

absl::StatusOr<Operation> MakeOperation(const Topology& topology, const BenchOptions& options,
                                        int64_t bytes, Rank self) {
  Operation operation{
      .kind = options.kind, .dtype = options.dtype, .bytes = bytes, .stages = {}, .shards = {}};
  const PlanOptions plan{.dtype = options.dtype, .chunk_bytes = options.chunk_bytes};
  absl::Status status;
  switch (options.kind) {
    case BenchKind::kAllGather:
    case BenchKind::kReduceScatter:
    case BenchKind::kAllReduce:
      status = AddShardedStages(topology, plan, self, operation);
      break;
    case BenchKind::kBroadcast:
      status = AddStage(PlanBroadcast(topology, bytes, Rank{0}, self, plan), operation);
      break;
    case BenchKind::kAllToAll:
      status = AddStage(PlanAllToAll(topology, bytes, self, plan), operation);
      break;
    case BenchKind::kSendRecv:
      status =
          AddStage(PlanShift(topology, bytes, SendRecvPlaces(topology), self, plan), operation);
      break;
  }
  STRATA_RETURN_IF_ERROR(status);
  return operation;
}

int SendRecvPlaces(const Topology& topology) {
  const auto groups = OutermostGroups(topology);
  return groups.size() > 1 ? groups[0].count : 1;
}

double FormulaBytes(const Topology& topology, BenchKind kind, int64_t bytes) {
  const auto groups = OutermostGroups(topology);
  if (groups.size() < 2) return 0;
  const int ranks = topology.size(), places = SendRecvPlaces(topology);
  double most = 0;
  for (const RankSpan& group : groups) {
    const double others = static_cast<double>(ranks - group.count) / ranks;
    double factor = 0;
    switch (kind) {
      case BenchKind::kAllGather:
      case BenchKind::kReduceScatter:
        factor = others;
        break;
      case BenchKind::kAllReduce:
        factor = 2 * others;
        break;
      case BenchKind::kBroadcast:
        factor = 1;
        break;
      case BenchKind::kAllToAll:
        factor = group.count * others;
        break;
      case BenchKind::kSendRecv:
        for (int rank = group.first; rank < group.first + group.count; ++rank) {
          factor += group.Contains(Rank{(rank + places) % ranks}) ? 0 : 1;
        }
        break;
    }
    most = std::max(most, factor * static_cast<double>(bytes));
  }
  return most;
}

double BusFactor(BenchKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case BenchKind::kAllReduce:
      return 2 * others;
    case BenchKind::kAllGather:
    case BenchKind::kReduceScatter:
    case BenchKind::kAllToAll:
      return others;
    case BenchKind::kBroadcast:
    case BenchKind::kSendRecv:
      return 1;
  }
  return 1;
}

std::string AlgorithmName(const Topology& topology, BenchKind kind) {
  const size_t groups = OutermostGroups(topology).size();
  const bool doubling = groups > 2 && (groups & (groups - 1)) == 0;
  const std::string reduce = doubling ? "distance doubling" : "direct exchange in rotation";
  switch (kind) {
    case BenchKind::kReduceScatter:
      return reduce;
    case BenchKind::kAllReduce:
      return reduce + ", then ring";
    case BenchKind::kAllGather:
    case BenchKind::kBroadcast:
      return "ring";
    case BenchKind::kAllToAll:
      return "direct exchange in rotation";
    case BenchKind::kSendRecv:
      return "direct";
  }
  return "";
}

}  // namespace strata
