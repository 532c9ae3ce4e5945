#include "cli/train/make_model.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

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

void BecomeProgramFor(const TrainConfig&) {}

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

void BecomeProgramFor(const TrainConfig& config) {
  if (config.model.kind == ModelKind::kUnits) return;
  std::error_code error;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<char*> arguments;  // each ends with a zero
  for (size_t at = 0; at < words.size(); at = words.find('\0', at) + 1) {
    arguments.push_back(words.data() + at);
  }
  arguments.push_back(nullptr);
  execv((own + "-torch").c_str(), arguments.data());
}

absl::StatusOr<std::unique_ptr<ReferenceModel>> MakeModel(const TrainConfig& config) {
  if (config.model.kind == ModelKind::kUnits) return MakeUnits(config);
  return absl::InvalidArgumentError(
      "model.kind: gpt needs libtorch, and this program has none, nor is there a strata-torch next "
      "to "
      "it; configure with -DSTRATA_TORCH=ON");
}

std::map<std::string, std::string> ModelFingerprint(const TrainConfig&) { return {}; }

std::string ModelBlas(const TrainConfig&) { return ""; }

#endif

}  // namespace strata
