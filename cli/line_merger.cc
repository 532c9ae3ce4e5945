#include "cli/line_merger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/output_file.h"

namespace strata {

LineMerger::LineMerger(int to, int ranks, bool labels_rank_0)
    : to_(to), ranks_(ranks), labels_rank_0_(labels_rank_0) {}

void LineMerger::Add(int rank, const std::string& line, absl::Time now) {
  for (Held& held : held_) {
    const auto place = std::lower_bound(held.ranks.begin(), held.ranks.end(), rank);
    const bool said_before = place != held.ranks.end() && *place == rank;
    if (held.line != line || held.ranks.front() == kCommand || said_before) continue;
    held.ranks.insert(place, rank);
    return;
  }
  held_.push_back({line, {rank}, now + kHeld});
}

void LineMerger::WriteDue(absl::Time now) {
  for (; !held_.empty() && held_.front().due <= now; held_.pop_front()) {
    // There is nobody to tell that what is to be told cannot be.
    WriteAll(to_, absl::StrCat(Label(held_.front().ranks), held_.front().line, "\n")).IgnoreError();
  }
}

absl::Time LineMerger::due() const {
  return held_.empty() ? absl::InfiniteFuture() : held_.front().due;
}

std::string LineMerger::Label(const std::vector<int>& ranks) const {
  if (ranks.front() == kCommand) return "";
  const bool all = static_cast<int>(ranks.size()) == ranks_ && ranks_ > 1;
  const bool rank_0_alone = ranks.size() == 1 && ranks.front() == 0;
  if (!labels_rank_0_ && (all || rank_0_alone)) return "";
  return absl::StrCat("[", RankList(ranks), "] ");
}

std::string RankList(const std::vector<int>& ranks) {
  std::string list;
  for (size_t begin = 0, end; begin < ranks.size(); begin = end) {
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    absl::StrAppend(&list, list.empty() ? "" : ", ", ranks[begin]);
    if (end - begin > 1) absl::StrAppend(&list, end - begin == 2 ? ", " : "-", ranks[end - 1]);
  }
  return list;
}

}  // namespace strata
