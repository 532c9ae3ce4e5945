#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace strata {

// [Note: Merged lines]
// The ranks of a job find the same mistake in the configuration, or the same reason to end, at
// nearly the same moment. What they write to their standard error is held for a moment, and a line
// that several of them wrote is written once, with all of them in its label. No rank is silenced:
// one that alone sees a mistake is heard.

// Lines of ranks, and of the command itself between them, in the order in which they came first.
class LineMerger {
 public:
  static constexpr int kCommand = -1;  // in place of a rank: the command that started the ranks
  static constexpr absl::Duration kHeld = absl::Seconds(1);

  // A line that all of `ranks` ranks wrote carries no label, and neither does one of rank 0 alone
  // unless `labels_rank_0`.
  LineMerger(int to, int ranks, bool labels_rank_0);

  void Add(int rank, const std::string& line, absl::Time now);

  // Writes what was held for long enough: all that came until `now - kHeld`.
  void WriteDue(absl::Time now);

  // Until when WriteDue has nothing to do; infinite when nothing is held.
  absl::Time due() const;

 private:
  struct Held {
    std::string line;
    std::vector<int> ranks;  // ascending
    absl::Time due;
  };

  std::string Label(const std::vector<int>& ranks) const;

  const int to_;
  const int ranks_;
  const bool labels_rank_0_;
  std::deque<Held> held_;
};

// "0-3, 5": ascending numbers, runs of them written by their ends.
std::string RankList(const std::vector<int>& ranks);

}  // namespace strata
