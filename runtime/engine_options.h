#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/layout.h"
#include "kernels/types.h"
#include "runtime/optimizer_options.h"

namespace strata {

// What an Engine is told once: RuntimeOptions without the way to the other ranks.
struct EngineOptions {
  Layout layout;
  DType compute_dtype = DType::kF32;
  DType gradient_dtype = DType::kF32;  // in which gradients cross links
  int accumulation = 1;                // micro-steps per step, >= 1
  int64_t prefetch_bytes = 64 << 20;   // budget of unit memory: gathered units, gradient buffers
  int64_t chunk_bytes = 256 << 10;     // a power of two, at least 4 KiB
  OptimizerOptions optimizer;
  float clip = 0;                              // largest global gradient norm; 0: no clipping
  absl::Duration timeout = absl::Seconds(30);  // of every waiting call
  bool trace = false;                          // record spans for a timeline
};

// InvalidArgument names the value that cannot be and what may be.
absl::Status CheckEngineOptions(const EngineOptions& options);

}  // namespace strata
