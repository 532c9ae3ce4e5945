#pragma once

#include <cstdint>
#include <vector>

#include "kernels/types.h"
#include "scheduler/prefetch_scheduler.h"

namespace strata {

// One use of a unit: an acquire that is not nested in another of the same unit.
struct Access {
  UnitId unit{};
  Phase phase = Phase::kForward;
  bool operator==(const Access&) const = default;
};

// The accesses of the step before, as a forecast of the running one, and how far that has come.
// Pure data; see [Note: Following the record] in the .cc.
class AccessRecord {
 public:
  // Memory for steps of this many accesses, so that recording them does not allocate.
  void Reserve(int accesses);

  // How many accesses are forecast; 0 in the first step.
  int size() const { return static_cast<int>(forecast_.size()); }
  const Access& operator[](int index) const { return forecast_[index]; }

  // The first index >= `index` whose access has not happened yet; size() if there is none.
  int Next(int index) const;

  // Where the next access is expected; size() if none is.
  int cursor() const { return cursor_; }

  // How an access relates to the forecast.
  struct Match {
    bool in_order = false;  // it is the expected one
    // The forecast accesses [first, last) that were expected before it and have not happened.
    int passed_first = 0, passed_last = 0;
  };

  // Notes an access of the running step and moves the cursor behind where it was forecast, if it
  // was.
  Match Add(Access access);

  // The accesses of the running step become the forecast of the next.
  void EndStep();

 private:
  int Find(Access access) const;
  bool FollowsPrevious(int index) const;

  std::vector<Access> forecast_;
  std::vector<bool> happened_;  // per forecast access
  std::vector<Access> running_;
  int cursor_ = 0;
  int first_open_ = 0;  // everything before it has happened
};

}  // namespace strata
