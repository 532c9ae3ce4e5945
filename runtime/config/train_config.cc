#include "runtime/config/train_config.h"

#include <utility>

namespace strata {

OptimizerOptions::Group ToOptimizerGroup(const TrainConfig& config) {
  return {.learning_rate = static_cast<float>(config.train.learning_rate),
          .weight_decay = static_cast<float>(config.train.weight_decay),
          .beta1 = static_cast<float>(config.train.beta1),
          .beta2 = static_cast<float>(config.train.beta2),
          .epsilon = static_cast<float>(config.train.epsilon),
          .momentum = static_cast<float>(config.train.momentum)};
}

RuntimeOptions ToRuntimeOptions(const TrainConfig& config, WorldOptions world) {
  RuntimeOptions options;
  options.world = std::move(world);
  options.world.transport = config.network.transport;
  if (!config.network.interface.empty()) options.world.interface = config.network.interface;
  options.world.timeout = config.network.timeout;
  options.layout = config.layout;
  options.shard_parameters = config.shard_parameters;
  options.shard_gradients = config.shard_gradients;
  options.shard_optimizer = config.shard_optimizer;
  options.compute_dtype = config.compute.dtype;
  options.gradient_dtype = config.compute.gradient_dtype;
  options.accumulation = static_cast<int>(config.train.accumulation);
  options.prefetch_bytes = config.prefetch.bytes;
  options.chunk_bytes = config.network.chunk;
  options.optimizer = {.kind = config.train.optimizer, .groups = {ToOptimizerGroup(config)}};
  options.clip = static_cast<float>(config.train.clip);
  options.timeout = config.network.timeout;
  return options;
}

}  // namespace strata
