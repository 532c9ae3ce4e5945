#include "runtime/config/model_size.h"

#include <algorithm>

namespace strata {

ModelSize ModelSizeOf(const TrainConfig& config) {
  ModelSize size;
  if (config.model.kind == ModelKind::kUnits) {
    for (const int64_t elements : config.model.elements) {
      size.parameters += static_cast<double>(elements);
      size.largest_unit = std::max(size.largest_unit, static_cast<double>(elements));
    }
    return size;
  }
  const auto layers = static_cast<double>(config.model.layers);
  const auto width = static_cast<double>(config.model.width);
  const auto heads = static_cast<double>(config.model.heads);
  const auto context = static_cast<double>(config.model.context);
  const double embedding = (256 + context) * width;
  const double block = (12 * width + 13) * width;  // four products with biases, two norms
  size.parameters = embedding + layers * block + 2 * width;
  size.largest_unit = std::max(embedding, block);
  size.tokens = static_cast<double>(config.train.micro_batch) * context;
  // Per token and block: both norms and what they normalise, queries, keys, values, their mix, and
  // the widened part before and after its activation; the shares of attention. Then the logits.
  size.activations = size.tokens * (layers * (16 * width + heads * context) + 256);
  return size;
}

}  // namespace strata
