#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace strata {

struct GptOptions {
  int layers = 4;
  int width = 256;
  int heads = 8;
  int context = 128;  // bytes a sequence may have
  uint64_t seed = 1;
  DType compute = DType::kF32;
};

}  // namespace strata
