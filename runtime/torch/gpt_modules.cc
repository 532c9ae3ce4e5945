#include "runtime/torch/gpt_modules.h"

#include <torch/nn/functional.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/random.h"

namespace strata {
namespace {

constexpr int64_t kVocabulary = 256;
constexpr float kWeightDeviation = 0.02f;

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

// Token and position embeddings. The token table is also the output projection.
struct EmbeddingLayer : torch::nn::Module {
  EmbeddingLayer(int64_t context, int64_t width) {
    tokens = register_parameter("tokens", torch::empty({kVocabulary, width}));
    positions = register_parameter("positions", torch::empty({context, width}));
  }
  torch::Tensor Embed(const torch::Tensor& ids) const {
    return torch::embedding(tokens, ids) + positions.slice(0, 0, ids.size(1));
  }
  torch::Tensor Project(const torch::Tensor& x) const { return torch::matmul(x, tokens.t()); }

  torch::Tensor tokens, positions;
};

// Attention and feed-forward, each behind a norm and around a residual.
struct Block : torch::nn::Module {
  Block(int64_t width, int64_t head_count) : heads(head_count) {
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({width})));
    qkv = register_module("qkv", Linear(width, 3 * width));
    projection = register_module("projection", Linear(width, width));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({width})));
    widen = register_module("widen", Linear(width, 4 * width));
    narrow = register_module("narrow", Linear(4 * width, width));
  }

  torch::Tensor Attend(const torch::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts =
        qkv(x).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    const double scale = 1.0 / std::sqrt(static_cast<double>(width / heads));
    auto scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) * scale;
    const auto future =
        torch::ones({length, length}, torch::dtype(torch::kBool)).triu(/*diagonal=*/1);
    scores = scores.masked_fill(future, -INFINITY);
    const auto mixed = torch::matmul(torch::softmax(scores, -1), parts[2]);
    return projection(mixed.transpose(1, 2).reshape({batch, length, width}));
  }

  torch::Tensor Run(const torch::Tensor& x) {
    const auto attended = x + Attend(norm1(x));
    return attended + narrow(torch::gelu(widen(norm2(attended))));
  }

  int64_t heads;
  LayerNorm norm1{nullptr}, norm2{nullptr};
  Linear qkv{nullptr}, projection{nullptr}, widen{nullptr}, narrow{nullptr};
};

struct FinalNorm : torch::nn::Module {
  explicit FinalNorm(int64_t width) {
    norm = register_module("norm", LayerNorm(LayerNormOptions({width})));
  }
  LayerNorm norm{nullptr};
};

// Weights of two dimensions are drawn, norms' weights are one, biases zero. What adds to the
// residual stream is drawn narrower, so that its variance does not grow with depth.
void Initialise(torch::nn::Module& module, const std::string& unit, const GptOptions& options) {
  torch::NoGradGuard no_gradients;
  for (auto& item : module.named_parameters()) {
    torch::Tensor& value = item.value();
    const std::string& key = item.key();
    if (value.dim() < 2) {
      value.fill_(key.find("norm") != std::string::npos && key.ends_with("weight") ? 1.0 : 0.0);
      continue;
    }
    const bool residual = key == "projection.weight" || key == "narrow.weight";
    const float deviation =
        residual ? kWeightDeviation / std::sqrt(2.0f * static_cast<float>(options.layers))
                 : kWeightDeviation;
    FillNormal(options.seed, absl::StrCat(unit, ".", key), 0,
               {value.data_ptr<float>(), static_cast<size_t>(value.numel())}, 0.0f, deviation);
  }
}

torch::Tensor ToTensor(std::span<const uint8_t> bytes, int64_t sequences) {
  const int64_t length = static_cast<int64_t>(bytes.size()) / sequences;
  return torch::from_blob(const_cast<uint8_t*>(bytes.data()), {sequences, length},
                          torch::dtype(torch::kUInt8))
      .to(torch::kInt64);
}

}  // namespace

struct GptModules::State {
  GptOptions options;
  std::shared_ptr<EmbeddingLayer> embedding;
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<FinalNorm> final_norm;
};

GptModules::GptModules(const GptOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->blocks.resize(options.layers);
}

GptModules::~GptModules() = default;

size_t GptModules::layer_count() const { return state_->blocks.size() + 2; }

GptLayer GptModules::MakeLayer(size_t index) {
  const GptOptions& options = state_->options;
  GptLayer layer;
  if (index == 0) {
    state_->embedding = std::make_shared<EmbeddingLayer>(options.context, options.width);
    layer = {"embedding", state_->embedding, 2};
  } else if (index <= state_->blocks.size()) {
    auto& block = state_->blocks[index - 1];
    block = std::make_shared<Block>(options.width, options.heads);
    layer = {absl::StrCat("h.", index - 1), block, 1};
  } else {
    state_->final_norm = std::make_shared<FinalNorm>(options.width);
    layer = {"final", state_->final_norm, 1};
  }
  Initialise(*layer.module, layer.name, options);
  return layer;
}

torch::Tensor GptModules::Loss(const Batch& batch, GptLayerCall call) const {
  const auto ids = ToTensor(batch.tokens, batch.sequences);
  auto x = call(0, [&] { return state_->embedding->Embed(ids); });
  for (size_t b = 0; b < state_->blocks.size(); ++b) {
    x = call(b + 1, [&] { return state_->blocks[b]->Run(x); });
  }
  x = call(layer_count() - 1, [&] { return state_->final_norm->norm(x); });
  const auto logits = call(0, [&] { return state_->embedding->Project(x); });
  const auto targets = ToTensor(batch.targets, batch.sequences);
  return torch::nn::functional::cross_entropy(logits.to(torch::kFloat32).view({-1, kVocabulary}),
                                              targets.view({-1}));
}

}  // namespace strata
