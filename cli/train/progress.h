#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "runtime/stopwatch.h"

namespace strata {

// A progress bar on stderr: nothing unless stderr is a terminal. Redrawn at most ten times a
// second.
class ProgressBar {
 public:
  ProgressBar(std::string label, int64_t total);
  ~ProgressBar();  // ends the line

  // `note` stands after the bar, for example "loss 2.31".
  void Show(int64_t done, const std::string& note);

 private:
  const std::string label_;
  const int64_t total_;
  const bool terminal_;
  const Stopwatch stopwatch_;
  absl::Duration last_shown_ = -absl::InfiniteDuration();
  bool shown_ = false;
};

}  // namespace strata
