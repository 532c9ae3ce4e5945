#include "cli/train/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace strata {

ProgressBar::ProgressBar(std::string label, int64_t total)
    : label_(std::move(label)), total_(std::max<int64_t>(1, total)), terminal_(isatty(2) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputc('\n', stderr);
}

void ProgressBar::Show(int64_t done, const std::string& note) {
  if (!terminal_) return;
  const absl::Duration elapsed = stopwatch_.Elapsed();
  if (done < total_ && elapsed - last_shown_ < absl::Milliseconds(100)) return;
  last_shown_ = elapsed;
  shown_ = true;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(kWidth * std::min(done, total_) / total_);
  const double left = done == 0 ? 0
                                : absl::ToDoubleSeconds(elapsed) / static_cast<double>(done) *
                                      static_cast<double>(total_ - std::min(done, total_));
  const std::string line = absl::StrFormat(
      "\r\x1b[K%-8s [%s%s] %d/%d  %s  %.0f s left", label_, std::string(filled, '#'),
      std::string(kWidth - filled, '.'), done, total_, note, left);
  std::fputs(line.c_str(), stderr);
}

}  // namespace strata
