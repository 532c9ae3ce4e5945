#include "cli/train/memory_need.h"

#include "absl/strings/str_format.h"
#include "runtime/config/model_size.h"

namespace strata {
namespace {

constexpr double kGiB = 1 << 30;

// Of f32: master parameters and the optimizer's moments.
int StateValues(const TrainConfig& config) {
  if (config.train.optimizer == OptimizerKind::kAdamW) return 3;
  return config.train.momentum > 0 ? 2 : 1;
}

}  // namespace

double LeastBytesOfNode(const TrainConfig& config, const Layout& layout, const Topology& topology,
                        Rank rank) {
  const ModelSize size = ModelSizeOf(config);
  double shards = 1;
  for (int level = 0; level < topology.level_count(); ++level) {
    if (!layout.optimizer.Has(level)) continue;
    shards *= static_cast<double>(topology.Children(level, topology.Group(rank, level)).size());
  }
  const double state = sizeof(float) * StateValues(config) * size.parameters / shards;
  const double unit = sizeof(float) * size.largest_unit;
  const double activations = static_cast<double>(SizeOf(config.compute.dtype)) * size.activations;
  const int node = topology.FindLevel("node");
  const double ranks = node < 0 ? 1 : topology.Members(node, topology.Group(rank, node)).count;
  return ranks * (state + (config.model.kind == ModelKind::kGpt ? unit : 0) + activations);
}

absl::Status CheckMemory(const TrainConfig& config, const Layout& layout, const Topology& topology,
                         Rank rank, int64_t available) {
  const double needed = LeastBytesOfNode(config, layout, topology, rank);
  if (needed <= static_cast<double>(available)) return absl::OkStatus();
  const bool gpt = config.model.kind == ModelKind::kGpt;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the model does not fit the memory of this host: its ranks need at least %.1f GiB, %.1f GiB "
      "are available; lower %s, or shard the optimizer over more levels or ranks",
      needed / kGiB, static_cast<double>(available) / kGiB,
      gpt ? "model.layers, model.width, model.context or train.micro_batch" : "model.elements"));
}

}  // namespace strata
