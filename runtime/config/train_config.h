#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comm/world.h"
#include "kernels/types.h"
#include "runtime/optimizer_options.h"
#include "runtime/runtime.h"

namespace strata {

// kGpt: the byte-level reference model. kUnits: units of given sizes whose compute is simulated, to
// measure steps without mathematics.
enum class ModelKind : uint8_t { kGpt, kUnits };

// How the learning rate goes on after its warmup.
enum class Schedule : uint8_t { kConstant, kCosine };

enum class DeviceKind : uint8_t { kHost };
enum class ReductionOrder : uint8_t { kCanonical };

// The values of one configuration file, as `Config` checked them. What each means, its default and
// what is allowed: runtime/config/key_table.cc and docs/configuration.md. Fields are named as their
// keys; values that do not apply to the chosen kind keep their defaults.
struct TrainConfig {
  struct Model {
    ModelKind kind = ModelKind::kGpt;
    int64_t layers = 0, width = 0, heads = 0, context = 0;  // kGpt
    std::vector<int64_t> elements;                          // kUnits: of each unit
    double forward_seconds = 0, backward_seconds = 0;       // kUnits: of one micro-step, all units
  } model;

  struct Data {
    std::string text;  // file
  } data;

  struct Train {
    int64_t steps = 0, micro_batch = 0, accumulation = 0, seed = 0;
    OptimizerKind optimizer = OptimizerKind::kAdamW;
    double learning_rate = 0;
    int64_t warmup = 0;  // steps
    Schedule schedule = Schedule::kConstant;
    double weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 0, momentum = 0;
    double clip = 0;         // 0: none
    int64_t eval_every = 0;  // steps; 0: never
  } train;

  struct Compute {
    DType dtype = DType::kF32, gradient_dtype = DType::kF32;
    DeviceKind device = DeviceKind::kHost;
  } compute;

  std::string layout;  // a preset, or "custom" for the three lists of level names
  std::vector<std::string> shard_parameters, shard_gradients, shard_optimizer;

  struct Prefetch {
    int64_t bytes = 0;
  } prefetch;

  ReductionOrder reduction = ReductionOrder::kCanonical;

  struct Network {
    std::string transport;
    std::string interface;  // empty: what the launcher says, else the route to the rendezvous host
    int64_t rate = 0;       // bytes per second of a node's link, one direction; 0: not known
    int64_t chunk = 0;      // bytes
    absl::Duration timeout;
  } network;
};

// What the runtime is to do with `config` in the job that `world` describes: every option that the
// configuration decides. An interface that it does not name stays the world's.
RuntimeOptions ToRuntimeOptions(const TrainConfig& config, WorldOptions world);

// The optimizer's only parameter group, with the learning rate before the schedule.
OptimizerOptions::Group ToOptimizerGroup(const TrainConfig& config);

}  // namespace strata
