#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/types.h"

namespace strata {

// Why a unit is acquired. Only kBackward lends a gradient buffer; kEval is outside the training
// step: it is neither recorded nor prefetched, and the step goes on where it was.
enum class Phase : uint8_t { kForward, kBackward, kRecompute, kEval };

// What the application did, as the scheduler sees it.
struct SchedulerCall {
  enum class Kind : uint8_t { kAcquire, kRelease, kEndStep };
  Kind kind = Kind::kAcquire;
  UnitId unit{};
  Phase phase = Phase::kForward;
};

// What is to be done next, in this order, on the gather lane.
struct SchedulerAction {
  enum class Kind : uint8_t {
    kGather,   // bring a copy of the full unit into unit memory
    kPublish,  // bring updated parameters to the parameters' layout (after EndStep)
    kDrop,     // free the copy gathered last; if its gather is still running, as soon as it ends
  };
  Kind kind = Kind::kGather;
  UnitId unit{};
};

// Copies of one unit that unit memory may hold at once: the one in use, and one for its next use.
inline constexpr int kUnitCopies = 2;

struct ScheduledUnit {
  int64_t bytes = 0;       // of unit memory, each copy
  bool gathered = false;   // parameters are sharded: an Acquire needs a gather. Else always there
  bool published = false;  // parameters change in EndStep on other ranks: a publish is needed
};

// Decides the order of gathers and publishes: a pure function of the calls, without clock, thread
// or I/O, so that all ranks that make the same calls issue the same operations in the same order,
// whatever ends when. The first step's acquires are recorded; later steps are prefetched from the
// record through a window that is as wide as the budget. An acquire that was not foreseen is
// gathered on demand; what was prefetched and turns out not to be next is dropped when its place is
// needed, and counted. [Note: Order and the window] in the .cc.
class PrefetchScheduler {
 public:
  // ResourceExhausted names the unit, what it wants, what there is and the key to change, unless
  // the budget holds the two largest consecutive units in any order of use (the one in use and the
  // next): twice the largest unit.
  static absl::StatusOr<PrefetchScheduler> Create(std::vector<ScheduledUnit> units,
                                                  int64_t budget_bytes);

  // Appends what `call` leads to. Acquiring a held unit again is counted (tied weights) and leads
  // to nothing. On an error nothing has changed: FailedPrecondition on calls that cannot be (a
  // release of what is not held, an EndStep while a unit is held), InvalidArgument for a unit that
  // does not exist, ResourceExhausted when the units that are held leave no room for another.
  absl::Status On(const SchedulerCall& call, std::vector<SchedulerAction>& actions);

  int64_t peak_bytes() const;          // of unit memory promised at once, since Create
  int64_t missed_prefetches() const;   // acquires of a recorded step that were not in flight
  int64_t dropped_prefetches() const;  // gathers that no acquire used

  PrefetchScheduler(PrefetchScheduler&&);
  PrefetchScheduler& operator=(PrefetchScheduler&&);
  ~PrefetchScheduler();

 private:
  class State;
  explicit PrefetchScheduler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace strata
