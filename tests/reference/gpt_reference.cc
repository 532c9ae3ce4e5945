// Trains the GPT of `strata train` in one process, without sharding: every rank's micro-batches one
// after the other, gradients added in the canonical order by TreeSum. Nothing of comm/, scheduler/
// or the runtime's machinery is in here, so its bits are an independent reference. Prints one JSON
// object: params_sha256 and the loss of the last step.

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/train/schedule.h"
#include "cli/train/text.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/sha256.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"
#include "runtime/torch/gpt_modules.h"
#include "tests/reference/canonical_sum.h"

namespace strata {
namespace {

struct Case {
  GptOptions model;
  std::string text, dtype = "f32", per_micro_step = "none", corrupt = "none";
  int nodes = 2, ranks_per_node = 2, accumulation = 1, micro_batch = 1, steps = 20, warmup = 2;
  double learning_rate = 1e-3, weight_decay = 0.1, clip = 0;
};

// A layer as the runtime lays a unit out: parameters at multiples of 64 elements, zeros between.
struct Unit {
  std::vector<torch::Tensor> parameters;
  std::vector<int64_t> offsets;
  Values master, first_moment, second_moment;
  // Per rank, in f32: the sum over the micro-steps so far.
  std::vector<Values> accumulated;
};

class Reference {
 public:
  explicit Reference(const Case& what) : case_(what), modules_(what.model), text_(LoadText()) {
    at::set_num_threads(1);
    for (size_t i = 0; i < modules_.layer_count(); ++i) units_.push_back(MakeUnit(i));
  }

  nlohmann::json Train() {
    double loss = 0;
    for (int step = 1; step <= case_.steps; ++step) loss = Step(step);
    return {{"params_sha256", Digest()}, {"loss", loss}};
  }

 private:
  int ranks() const { return case_.nodes * case_.ranks_per_node; }
  DType dtype() const { return case_.model.compute; }

  Text LoadText() const {
    absl::StatusOr<Text> text = Text::Load(case_.text, case_.model.context);
    STRATA_CHECK(text.ok());
    return *std::move(text);
  }

  Unit MakeUnit(size_t index) {
    Unit unit;
    GptLayer layer = modules_.MakeLayer(index);
    int64_t elements = 0;
    for (torch::Tensor& parameter : layer.module->parameters()) {
      unit.offsets.push_back(elements);
      elements += (parameter.numel() + 63) / 64 * 64;
    }
    unit.master.resize(elements);
    unit.first_moment.resize(elements);
    unit.second_moment.resize(elements);
    const auto values = layer.module->parameters();
    for (size_t p = 0; p < values.size(); ++p) {
      const float* first = values[p].data_ptr<float>();
      std::copy(first, first + values[p].numel(), unit.master.begin() + unit.offsets[p]);
    }
    if (dtype() == DType::kBf16) layer.module->to(torch::kBFloat16);
    unit.parameters = layer.module->parameters();
    return unit;
  }

  // Sums over the ranks of each node, or over all: the levels on which gradients are reduced.
  std::vector<Values> SumNodes(const std::vector<Values>& parts) const {
    std::vector<Values> sums;
    for (int n = 0; n < case_.nodes; ++n) {
      const size_t first = static_cast<size_t>(n) * case_.ranks_per_node;
      sums.push_back(TreeSum(parts, first, first + case_.ranks_per_node, dtype()));
    }
    return sums;
  }

  std::vector<Values> Reduce(std::vector<Values> parts, bool nodes, bool cluster) const {
    if (case_.corrupt == "rotated" && (nodes || cluster))
      std::rotate(parts.begin(), parts.begin() + 1, parts.end());
    if (nodes) parts = SumNodes(parts);
    if (cluster) parts = {TreeSum(parts, 0, parts.size(), dtype())};
    return parts;
  }

  Values Gradient(const Unit& unit) const {
    Values flat(unit.master.size(), 0.0f);
    for (size_t p = 0; p < unit.parameters.size(); ++p) {
      const torch::Tensor gradient = unit.parameters[p].grad().to(torch::kFloat32).contiguous();
      const float* first = gradient.data_ptr<float>();
      std::copy(first, first + gradient.numel(), flat.begin() + unit.offsets[p]);
    }
    return flat;
  }

  double MicroStep(int step, int micro, int rank, std::vector<std::vector<Values>>& gradients) {
    for (Unit& unit : units_) {
      for (torch::Tensor& parameter : unit.parameters) {
        parameter.mutable_grad() = torch::zeros_like(parameter);
      }
    }
    // Ranks 1 and 2 are in different pairs of the tree; a swap within a pair changes nothing.
    const bool swapped = case_.corrupt == "swapped" && (rank == 1 || rank == 2);
    const int place = swapped ? 3 - rank : rank;
    const auto index =
        static_cast<uint64_t>(((step - 1) * case_.accumulation + micro) * ranks() + place);
    const uint64_t seed = case_.model.seed + (case_.corrupt == "seed" ? 1 : 0);
    const Text::Storage batch =
        text_.TrainingBatch(seed, index, case_.micro_batch, case_.model.context);
    const torch::Tensor loss = modules_.Loss(
        batch.View(), [](size_t, absl::FunctionRef<torch::Tensor()> compute) { return compute(); });
    loss.backward();
    const bool dropped = case_.corrupt == "dropped" && step == 1 && micro == 0 && rank == 0;
    for (size_t u = 0; u < units_.size(); ++u) {
      gradients[u].push_back(dropped && u == 1 ? Values(units_[u].master.size(), 0.0f)
                                               : Gradient(units_[u]));
    }
    return loss.item<float>();
  }

  double Step(int step) {
    Load();
    double loss = 0;
    const bool nodes_first = case_.per_micro_step != "none";
    const bool all_first = case_.per_micro_step == "all";
    for (int micro = 0; micro < case_.accumulation; ++micro) {
      std::vector<std::vector<Values>> gradients(units_.size());
      for (int rank = 0; rank < ranks(); ++rank) loss += MicroStep(step, micro, rank, gradients);
      for (size_t u = 0; u < units_.size(); ++u) {
        Accumulate(units_[u], Reduce(std::move(gradients[u]), nodes_first, all_first), micro);
      }
    }
    for (Unit& unit : units_) {
      for (Values& part : unit.accumulated) {
        for (float& value : part) value = RoundTo(dtype(), value);
      }
      unit.accumulated = Reduce(std::move(unit.accumulated), !nodes_first, !all_first);
    }
    Update(step);
    return loss / (ranks() * case_.accumulation);
  }

  static void Accumulate(Unit& unit, std::vector<Values> parts, int micro) {
    if (micro == 0) {
      unit.accumulated = std::move(parts);
      return;
    }
    for (size_t r = 0; r < parts.size(); ++r) {
      for (size_t i = 0; i < parts[r].size(); ++i) unit.accumulated[r][i] += parts[r][i];
    }
  }

  void Update(int step) {
    const float scale = static_cast<float>(1.0 / (ranks() * case_.accumulation));
    NormSum sum;
    for (Unit& unit : units_) {
      for (float& value : unit.accumulated[0]) value *= scale;
      sum.AddBlocks(unit.accumulated[0]);
    }
    const double norm = sum.Sqrt();
    float factor = 1;
    const auto limit = static_cast<double>(static_cast<float>(case_.clip));
    if (limit > 0 && norm > limit) {
      factor = static_cast<float>(limit / norm);
      while (factor * norm > limit) factor = std::nextafterf(factor, 0.0f);
    }
    beta1_power_ *= static_cast<double>(0.9f);
    beta2_power_ *= static_cast<double>(0.999f);
    for (Unit& unit : units_) {
      AdamW({.parameters = unit.master.data(),
             .first_moment = unit.first_moment.data(),
             .second_moment = unit.second_moment.data(),
             .gradient = unit.accumulated[0].data(),
             .elements = static_cast<int64_t>(unit.master.size()),
             .clip = factor,
             .learning_rate = LearningRate({static_cast<float>(case_.learning_rate), case_.warmup,
                                            case_.steps, /*cosine=*/true},
                                           step),
             .beta1 = 0.9f,
             .beta2 = 0.999f,
             .epsilon = 1e-8f,
             .weight_decay = static_cast<float>(case_.weight_decay),
             .beta1_power = beta1_power_,
             .beta2_power = beta2_power_});
    }
  }

  // Master parameters into the modules, in the compute type.
  void Load() {
    torch::NoGradGuard no_gradients;
    for (Unit& unit : units_) {
      for (size_t p = 0; p < unit.parameters.size(); ++p) {
        torch::Tensor& parameter = unit.parameters[p];
        parameter.copy_(torch::from_blob(unit.master.data() + unit.offsets[p], parameter.sizes(),
                                         torch::dtype(torch::kFloat32)));
      }
    }
  }

  std::string Digest() const {
    Sha256 digest;
    for (const Unit& unit : units_) {
      for (size_t p = 0; p < unit.parameters.size(); ++p) {
        digest.Update(std::as_bytes(
            std::span(unit.master.data() + unit.offsets[p], unit.parameters[p].numel())));
      }
    }
    return digest.HexDigest();
  }

  const Case case_;
  GptModules modules_;
  const Text text_;
  std::vector<Unit> units_;
  double beta1_power_ = 1, beta2_power_ = 1;
};

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::Case what;
  CLI::App app("Reference training in one process");
  app.add_option("--text", what.text)->required();
  app.add_option("--layers", what.model.layers);
  app.add_option("--width", what.model.width);
  app.add_option("--heads", what.model.heads);
  app.add_option("--context", what.model.context);
  app.add_option("--dtype", what.dtype)->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--per-micro-step", what.per_micro_step, "Levels reduced in each micro-step")
      ->check(CLI::IsMember({"none", "node", "all"}));
  app.add_option("--corrupt", what.corrupt, "A negative control")
      ->check(CLI::IsMember({"none", "seed", "swapped", "rotated", "dropped"}));
  app.add_option("--nodes", what.nodes);
  app.add_option("--ranks-per-node", what.ranks_per_node);
  app.add_option("--accumulation", what.accumulation);
  app.add_option("--micro-batch", what.micro_batch);
  app.add_option("--steps", what.steps);
  app.add_option("--clip", what.clip);
  CLI11_PARSE(app, argc, argv);
  what.model.compute = what.dtype == "f32" ? strata::DType::kF32 : strata::DType::kBf16;
  std::printf("%s\n", strata::Reference(what).Train().dump().c_str());
  return 0;
}
