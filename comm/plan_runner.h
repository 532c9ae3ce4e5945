#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comm/loop.h"
#include "comm/plan.h"
#include "comm/transport.h"
#include "kernels/stream.h"
#include "kernels/types.h"

namespace strata {

// Memory that a plan's offsets refer to: one run of bytes, or equal pages. A slice never crosses a
// page. Borrowed: outlives the run.
struct PlanBuffer {
  std::span<std::byte* const> pages;
  int64_t page_bytes = 0;  // of every page but the last, which may be shorter

  std::byte* At(int64_t offset) const { return pages[offset / page_bytes] + offset % page_bytes; }
};

struct PlanBuffers {
  PlanBuffer input, output, scratch;
};

struct RunOptions {
  std::string what;          // `gather unit "h.7"`, for errors
  uint32_t operation = 0;    // the same on all ranks, unique among those in flight on the lane
  uint32_t order = 0;        // running hash, see Tag
  uint64_t priority = 0;     // lower goes first where several runs have ready steps
  absl::Time deadline = absl::InfiniteFuture();
  // Per level; what completes is added as it does, in the lane's loop. May be empty, or shared by
  // several runs: how a caller attributes bytes to a step. Borrowed: outlives the run.
  std::span<WireBytes> moved;
};

// What a lane has done since it started. `exposed` work is attributed by the caller, with
// `UnfinishedLevel`.
struct LevelCounters {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  absl::Duration busy;  // time with at least one transfer in flight on the level
};

// Walks the DAGs of one lane's plans. Several may be in flight: of all ready steps, those of the
// run with the lowest `priority` go first, then in plan order. A send takes its bytes from the credits
// of its level and returns them when it is done; receives are posted at once and take none. All
// calls and Dones in the lane's loop. No allocation of 4 KiB or more after the first run of a shape.
class PlanRunner {
 public:
  struct Options {
    // Bytes that may be in flight per level, innermost first. At least one send always may.
    std::vector<int64_t> credit_bytes;
  };

  // `transports[level]` may be one object for several levels. All borrowed.
  PlanRunner(Loop& loop, Stream& stream, std::vector<Transport*> transports, Options options);
  ~PlanRunner();

  // Ends with OK when all steps have, with the first error annotated by `what` and level, or with
  // DeadlineExceeded naming the ranks still waited for. After an error the lane is of no more use:
  // the owner calls Abort.
  void Run(std::shared_ptr<const Plan> plan, const PlanBuffers& buffers, RunOptions options,
           Done done);

  // Ends all runs, and later ones, with `why`. The first reason wins.
  void Abort(absl::Status why);

  LevelCounters counters(int level) const;

  // The outermost level with an unfinished transfer in the run of `operation`; -1 if there is none.
  int UnfinishedLevel(uint32_t operation) const;

  // Steps done of steps, and the peers waited for, of the run of `operation`: for messages.
  std::string Describe(uint32_t operation) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata
