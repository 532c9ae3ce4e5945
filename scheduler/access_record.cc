#include "scheduler/access_record.h"

#include <algorithm>

namespace strata {

// [Note: Following the record]
// While the application repeats itself, every access is the one at the cursor. Any other access is
// looked for among those forecast that have not happened yet, earliest first:
//   - one that was passed over before: units changed places, and the cursor goes back to it;
//   - one of the next kNear: accesses before it were left out (or come later), and the cursor
//   jumps;
//   - one farther ahead only if the access before this one is forecast right before it. A single
//     extra access of a unit that each micro-step uses would otherwise move the cursor to another
//     micro-step.
// If it is not found, it is taken as additional and the cursor stays. A wrong guess costs
// prefetches only, and the next step follows what really happened.
namespace {
constexpr int kNear = 8;
}  // namespace

void AccessRecord::Reserve(int accesses) {
  forecast_.reserve(accesses);
  happened_.reserve(accesses);
  running_.reserve(accesses);
}

int AccessRecord::Next(int index) const {
  while (index < size() && happened_[index]) ++index;
  return index;
}

AccessRecord::Match AccessRecord::Add(Access access) {
  running_.push_back(access);
  const int expected = cursor_;
  const bool in_order = expected < size() && forecast_[expected] == access;
  const int found = in_order ? expected : Find(access);
  if (found < 0) return {};
  happened_[found] = true;
  cursor_ = Next(found + 1);
  first_open_ = Next(first_open_);
  return {.in_order = in_order, .passed_first = std::min(expected, found), .passed_last = found};
}

int AccessRecord::Find(Access access) const {
  for (int i = first_open_; i < cursor_; i = Next(i + 1)) {
    if (forecast_[i] == access) return i;
  }
  int ahead = 0;
  for (int i = cursor_; i < size(); i = Next(i + 1), ++ahead) {
    if (forecast_[i] == access && (ahead < kNear || FollowsPrevious(i))) return i;
  }
  return -1;
}

bool AccessRecord::FollowsPrevious(int index) const {
  return index > 0 && running_.size() > 1 && forecast_[index - 1] == running_[running_.size() - 2];
}

void AccessRecord::EndStep() {
  forecast_.swap(running_);
  running_.clear();
  happened_.assign(forecast_.size(), false);
  cursor_ = 0;
  first_open_ = 0;
}

}  // namespace strata
