#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/batch.h"
#include "runtime/torch/gpt_options.h"

namespace strata {

// One layer of the GPT: the module with its parameters, by the name of its unit.
struct GptLayer {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  int uses = 1;  // per pass; 2 where the output projection is tied to the embedding
};

// Runs one use of layer `index`, given what to compute.
using GptLayerCall =
    absl::FunctionRef<torch::Tensor(size_t index, absl::FunctionRef<torch::Tensor()> compute)>;

// A pre-norm GPT over bytes: embedding (tied to the output projection), `layers` blocks, final
// norm. Knows nothing of how its parameters are kept: `GptLoss` computes through a GptLayerCall.
class GptModules {
 public:
  explicit GptModules(const GptOptions& options);
  ~GptModules();

  size_t layer_count() const;

  // Makes layer `index` with its initial f32 values, drawn by (seed, parameter name, element). The
  // module is held here as well.
  GptLayer MakeLayer(size_t index);

  // Mean cross-entropy of the batch, f32. All layers must have been made.
  torch::Tensor Loss(const Batch& batch, GptLayerCall call) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata
