#pragma once

#include <cstdint>
#include <memory>

#include "runtime/reference_model.h"

namespace strata {

struct GptOptions {
  int layers = 4;
  int width = 256;
  int heads = 8;
  int context = 128;  // bytes a sequence may have
  uint64_t seed = 1;
  DType compute = DType::kF32;
};

// The reference model: a byte-level GPT whose mathematics is libtorch's, one thread.
std::unique_ptr<ReferenceModel> MakeGpt(const GptOptions& options);

}  // namespace strata
