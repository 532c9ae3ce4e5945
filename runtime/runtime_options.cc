#include "runtime/runtime_options.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"

namespace strata {

absl::StatusOr<EngineOptions> MakeEngineOptions(const RuntimeOptions& options,
                                                const Topology& topology) {
  absl::StatusOr<Layout> layout =
      options.layout == "custom" ? MakeLayout(options.shard_parameters, options.shard_gradients,
                                              options.shard_optimizer, topology)
                                 : ParseLayout(options.layout, topology);
  if (!layout.ok()) return layout.status();
  EngineOptions engine{.layout = *std::move(layout),
                       .compute_dtype = options.compute_dtype,
                       .gradient_dtype = options.gradient_dtype,
                       .accumulation = options.accumulation,
                       .prefetch_bytes = options.prefetch_bytes,
                       .chunk_bytes = options.chunk_bytes,
                       .optimizer = options.optimizer,
                       .clip = options.clip,
                       .timeout = options.timeout,
                       .trace = !options.trace.empty()};
  STRATA_RETURN_IF_ERROR(CheckEngineOptions(engine));
  return engine;
}

absl::StatusOr<std::string> MakeFingerprint(const RuntimeOptions& options) {
  nlohmann::json fingerprint = nlohmann::json::object();
  if (!options.world.fingerprint.empty()) {
    fingerprint = nlohmann::json::parse(options.world.fingerprint, nullptr, false);
    if (!fingerprint.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("world.fingerprint is no JSON object: ", options.world.fingerprint));
    }
  }
  const auto add = [&fingerprint](const char* key, const std::string& value) {
    fingerprint[key] = value;
  };
  add("layout", options.layout);
  if (options.layout == "custom") {
    add("layout.parameters", absl::StrJoin(options.shard_parameters, ","));
    add("layout.gradients", absl::StrJoin(options.shard_gradients, ","));
    add("layout.optimizer", absl::StrJoin(options.shard_optimizer, ","));
  }
  add("compute.dtype", Name(options.compute_dtype));
  add("compute.gradient_dtype", Name(options.gradient_dtype));
  add("train.accumulation", absl::StrCat(options.accumulation));
  add("train.clip", absl::StrCat(options.clip));
  add("train.optimizer", options.optimizer.kind == OptimizerKind::kAdamW ? "adamw" : "sgd");
  add("prefetch.bytes", absl::StrCat(options.prefetch_bytes));
  add("chunk_bytes", absl::StrCat(options.chunk_bytes));
  return fingerprint.dump();
}

}  // namespace strata
