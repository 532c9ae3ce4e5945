#pragma once

#include <cstdint>
#include <functional>
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
  std::string what;        // `gather unit "h.7"`, for errors
  uint32_t operation = 0;  // the same on all ranks, unique among those in flight on the lane
  uint32_t order = 0;      // running hash, see Tag
  uint64_t priority = 0;   // lower goes first where several runs have ready steps
  absl::Time deadline = absl::InfiniteFuture();
  // Per level; what completes is added as it does, in the lane's loop. May be empty, or shared by
  // several runs: how a caller attributes bytes to a step. Borrowed: outlives the run.
  std::span<WireBytes> moved;
};

// What a lane has done since it started.
struct LevelCounters {
  int64_t sent_bytes = 0;  // of completed transfers
  int64_t received_bytes = 0;
  absl::Duration busy;  // time with at least one transfer (or posted receive) outstanding
};

// Walks the DAGs of one lane's plans. Several may be in flight: of all ready steps, those of the
// run with the lowest `priority` go first, then of the run that came first, in plan order. A send
// goes when its bytes and those that its run and the runs before it have in flight on its level are
// within the level's credits ([Note: Whose credits count]); what comes later in that order does not
// overtake it. Receives are posted as soon as their dependencies are met and
// take no credit. Copies and reduces run in tasks of at most 1 MiB. All calls and Dones in the
// lane's loop. Nothing is allocated per step, nor per run after the first run of a plan.
//
// An error of one run (a lost peer, a deadline) ends the lane: all its runs, and its transports,
// which give lent buffers back. The first reason wins and is what every Done reports.
class PlanRunner {
 public:
  struct Options {
    // Bytes that may be in flight per level, innermost first, each > 0. A send of more takes all of
    // them, so at least one send always may go.
    std::vector<int64_t> credit_bytes;
    std::vector<std::string> level_names;        // for errors; empty: numbers
    std::function<std::string(Rank)> rank_name;  // for errors: "rank 3 (host b)"; may be null
  };

  // `transports[level]` may be one object for several levels. All borrowed.
  PlanRunner(Loop& loop, Stream& stream, std::vector<Transport*> transports, Options options);

  // In the loop, or when the loop runs no more. Runs that have not ended do so as after Abort: each
  // Done comes when its buffers are no longer lent, unless the loop ends first.
  ~PlanRunner();
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;

  // Ends with OK when all steps have; otherwise with the lane's error once nothing of this run is
  // outstanding: an error of a transfer annotated with `what` and its level, or DeadlineExceeded
  // naming the ranks still waited for. A plan must stay the same while its shared_ptr lives.
  void Run(std::shared_ptr<const Plan> plan, const PlanBuffers& buffers, RunOptions options,
           Done done);

  // Runs of `priority`, under way or later, go before those of any other but 0: sends of runs that
  // went before them take no credits from them any more. Until the next call.
  void Prefer(uint64_t priority);

  // Ends all runs, later ones, and the lane's transports with `why`. The first reason wins.
  void Abort(absl::Status why);

  LevelCounters counters(int level) const;

  // The outermost level with an unfinished transfer in the run of `operation`; -1 if there is none.
  int UnfinishedLevel(uint32_t operation) const;

  // The peers waited for, and steps done of steps, of the run of `operation`: for messages.
  // `operation 17: no progress from rank 3 (level cluster); 12 of 40 steps done`.
  std::string Describe(uint32_t operation) const;

 private:
  struct State;
  State* state_;  // kept by what is outstanding, too
};

}  // namespace strata
