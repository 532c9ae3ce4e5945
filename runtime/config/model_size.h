#pragma once

#include "runtime/config/train_config.h"

namespace strata {

// What a configured model consists of. Doubles: no product of the keys' values overflows.
struct ModelSize {
  double parameters = 0;
  double largest_unit = 0;  // parameters
  double tokens = 0;        // of one rank's micro-step; kGpt
  double activations = 0;   // elements that a forward pass at least keeps for the backward; kGpt
};

ModelSize ModelSizeOf(const TrainConfig& config);

// No run is larger. What fits a host is less, and checked when it is known.
inline constexpr double kMostParameters = 1e12;
inline constexpr double kMostTokens = 1e8;

}  // namespace strata
