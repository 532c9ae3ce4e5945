#pragma once

#include <cstdint>
#include <vector>

namespace strata {

enum class OptimizerKind : uint8_t { kAdamW, kSgd };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // Per parameter group, settable per step; ParameterSpec::group selects one.
  struct Group {
    float learning_rate = 1e-3f;
    float weight_decay = 0;
    float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;  // AdamW
    float momentum = 0;                                   // SGD
  };
  std::vector<Group> groups = std::vector<Group>(1);
};

}  // namespace strata
