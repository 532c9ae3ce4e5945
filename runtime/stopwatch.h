#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace strata {

// Time since it was made, for what is measured outside of loops.
class Stopwatch {
 public:
  absl::Duration Elapsed() const {
    return absl::FromChrono(std::chrono::steady_clock::now() - start_);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace strata
