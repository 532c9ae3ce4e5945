#include "cli/train/make_model.h"

#include "runtime/simulated_model.h"
#ifdef STRATA_HAVE_TORCH
#include "runtime/torch/gpt.h"
#include "runtime/torch/torch_environment.h"
#endif

namespace strata {
namespace {

constexpr int64_t kSimulatedSequence = 64;

std::unique_ptr<ReferenceModel> MakeUnits(const TrainConfig& config) {
  SimulatedOptions options;
  options.elements = config.model.elements;
  options.forward = absl::Seconds(config.model.forward_seconds);
  options.backward = absl::Seconds(config.model.backward_seconds);
  options.compute = config.compute.dtype;
  return MakeSimulatedModel(options);
}

}  // namespace

int64_t SequenceLength(const TrainConfig& config) {
  return config.model.kind == ModelKind::kGpt ? config.model.context : kSimulatedSequence;
}

#ifdef STRATA_HAVE_TORCH

absl::StatusOr<std::unique_ptr<ReferenceModel>> MakeModel(const TrainConfig& config) {
  if (config.model.kind == ModelKind::kUnits) return MakeUnits(config);
  GptOptions options;
  options.layers = static_cast<int>(config.model.layers);
  options.width = static_cast<int>(config.model.width);
  options.heads = static_cast<int>(config.model.heads);
  options.context = static_cast<int>(config.model.context);
  options.seed = static_cast<uint64_t>(config.train.seed);
  options.compute = config.compute.dtype;
  return MakeGpt(options);
}

std::map<std::string, std::string> ModelFingerprint(const TrainConfig& config) {
  if (config.model.kind == ModelKind::kUnits) return {};
  return TorchFingerprint();
}

std::string ModelBlas(const TrainConfig& config) {
  return config.model.kind == ModelKind::kUnits ? "" : BlasLibrary();
}

#else

absl::StatusOr<std::unique_ptr<ReferenceModel>> MakeModel(const TrainConfig& config) {
  if (config.model.kind == ModelKind::kUnits) return MakeUnits(config);
  return absl::InvalidArgumentError(
      "model.kind: gpt needs libtorch, and this build has none; configure with -DSTRATA_TORCH=ON");
}

std::map<std::string, std::string> ModelFingerprint(const TrainConfig&) { return {}; }

std::string ModelBlas(const TrainConfig&) { return ""; }

#endif

}  // namespace strata
