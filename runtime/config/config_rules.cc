#include "runtime/config/config_rules.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/config/model_size.h"

namespace strata {
namespace {

using C = TrainConfig;

bool Within(const std::vector<std::string>& inner, const std::vector<std::string>& outer) {
  return std::ranges::all_of(
      inner, [&](const std::string& level) { return std::ranges::count(outer, level) > 0; });
}

std::string NotWithin(const C&) {
  return "has a level that layout.optimizer lacks: optimizer state is sharded over every level "
         "that "
         "parameters or gradients are sharded over";
}

bool HasPossibleSize(const C& c) { return ModelSizeOf(c).parameters <= kMostParameters; }

std::string TooManyParameters(const C& c) {
  return absl::StrFormat("the model has %.3g parameters; at most %.3g are possible",
                         ModelSizeOf(c).parameters, kMostParameters);
}

const std::vector<ConfigRule>& Rules() {
  static const auto& rules = *new std::vector<ConfigRule>{
      {{"model.width", "model.heads"},
       [](const C& c) { return c.model.width % c.model.heads == 0; },
       [](const C& c) {
         return absl::StrCat(c.model.width, " is not a multiple of model.heads, which is ",
                             c.model.heads);
       }},
      {{"model.elements"},
       [](const C& c) { return !c.model.elements.empty(); },
       [](const C&) { return std::string("an empty list: there is at least one unit"); }},
      {{"model.width", "model.layers", "model.context"}, HasPossibleSize, TooManyParameters},
      {{"model.elements"}, HasPossibleSize, TooManyParameters},
      {{"train.micro_batch", "model.context"},
       [](const C& c) { return ModelSizeOf(c).tokens <= kMostTokens; },
       [](const C& c) {
         return absl::StrFormat(
             "%d sequences of %d bytes are %.3g in a micro-step; at most %.3g are "
             "possible",
             c.train.micro_batch, c.model.context, ModelSizeOf(c).tokens, kMostTokens);
       }},
      {{"train.warmup", "train.steps"},
       [](const C& c) { return c.train.warmup <= c.train.steps; },
       [](const C& c) {
         return absl::StrCat(c.train.warmup, " is more than train.steps, which is ", c.train.steps);
       }},
      {{"layout.parameters", "layout.optimizer"},
       [](const C& c) { return Within(c.shard_parameters, c.shard_optimizer); },
       NotWithin},
      {{"layout.gradients", "layout.optimizer"},
       [](const C& c) { return Within(c.shard_gradients, c.shard_optimizer); },
       NotWithin},
      {{"network.chunk"},
       [](const C& c) { return std::has_single_bit(static_cast<uint64_t>(c.network.chunk)); },
       [](const C& c) { return absl::StrCat(c.network.chunk, " bytes is not a power of two"); }},
  };
  return rules;
}

}  // namespace

std::span<const ConfigRule> ConfigRules() { return Rules(); }

}  // namespace strata
