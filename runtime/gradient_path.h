#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/norm.h"
#include "runtime/engine_core.h"
#include "runtime/lane_job.h"
#include "runtime/shard_memory.h"

namespace strata {

// Gradients: buffers that are lent for backward, the reduces of micro-steps and of the boundary, on
// the reduce lane. See [Note: The way of a gradient].
//
// [Note: Joining] A reduce needs every rank, but not every rank has a gradient for each unit. The
// k-th reduce of a unit in a step is one operation, whatever else a rank does before it: operations
// are numbered by what they are, not by when they are issued. Whoever released a unit without
// Reduce joins with zeros at once; whoever did not acquire it for backward joins at EndStep, when a
// first exchange has told how often anyone joined.
//
// [Note: Jobs and buffers] A job takes one of a few sets of buffers. Ranks may begin jobs in
// different orders, so at EndStep one more set is kept for the lowest unit that is not finished,
// and its runs go before all others: on every rank it can run, so it ends, and so does the next.
// Control loop.
class GradientPath {
 public:
  explicit GradientPath(EngineCore& core);

  absl::Status Allocate(ShardMemory& memory);

  // A zeroed buffer is wanted, lent as soon as there is one.
  void Want(UnitId unit);
  bool Wanted(UnitId unit) const;
  bool Lent(UnitId unit) const { return units_[Index(unit)].lent; }
  std::byte* Address(UnitId unit) const { return core_.arena->Address(core_.GradientSlot(unit)); }
  // ResourceExhausted when only the application could give back what a wanted buffer waits for.
  absl::Status CheckNotStuck(UnitId unit) const;

  // The lent buffer is a gradient, or nothing (zeros).
  absl::Status Reduce(UnitId unit);
  void Discard(UnitId unit);

  // What this rank did with a unit in this step.
  struct Contribution {
    int joined = 0;     // reduces that it took part in
    bool real = false;  // at least one was a gradient
  };
  Contribution contribution(UnitId unit) const;

  // No more gradients in this step: by unit, how often the others joined at most. Zeros make up for
  // what this rank did not join.
  void Finish(std::span<const int> joins);
  bool finished() const { return finishing_ && unfinished_ == 0; }
  bool lends() const;
  // The step's sum of squares of what this rank counts, when finished.
  const NormSum& norm() const { return norm_; }
  void BeginStep();

  // The oldest operation under way.
  std::optional<PendingOperation> Pending() const;

  // Numbers of the step's two exchanges, `index` 0 or 1.
  uint32_t ExchangeNumber(int index) const;
  // InvalidArgument when there are too many units and micro-steps to be numbered.
  absl::Status CheckNumbers() const;

 private:
  enum class Input : uint8_t { kBuffer, kDiscarded, kZeros };
  struct Job {
    UnitId unit{};
    int index = 0;  // of the micro-step; kBoundary; kNothing: only zeroes its buffer
    Input input = Input::kBuffer;
    bool started = false;
    int buffers = kNoBuffers;
    uint64_t sequence = 0;
    absl::Time begin;
  };
  using JobList = std::list<Job>;
  struct UnitState {
    bool lent = false, busy = false;  // of the buffer: with the application, with a job
    bool real = false;
    int joined = 0;
    int required = -1;  // joins; -1 until the exchange has told
    bool boundary_issued = false;
  };
  struct JobBuffers {
    FlatBuffer input, output, spread, scratch;
    bool taken = false;
  };
  static constexpr int kBoundary = -1, kNothing = -2;
  static constexpr int kNoBuffers = -1;

  absl::Status AllocateBuffers(ShardMemory& memory);
  void Join(UnitId unit, Input input);
  void AddJob(UnitId unit, int index, Input input);
  void PumpBuffers();
  void PumpJobs();
  void PreferLowestUnfinished();
  bool FirstOfUnit(JobList::const_iterator job) const;
  bool NeedsBuffers(const Job& job) const;
  int TakeBuffers(const Job& job, bool in_turn);
  void Start(JobList::iterator job);
  void AddMicroStages(const Job& job, LaneJob& stages);
  void AddBoundaryStages(const Job& job, LaneJob& stages);
  void AddZeroPages(UnitId unit, LaneJob& stages) const;
  void AddAccumulate(const Job& job, const PlanBuffer& source, DType dtype, LaneJob& stages) const;
  RunOptions MakeRunOptions(const Job& job, int stage) const;
  void OnEnd(JobList::iterator job, absl::Status status);
  void AddBoundary(UnitId unit);
  UnitId LowestUnfinished() const;
  uint32_t Number(UnitId unit, int stage) const;
  std::deque<JobBuffers>& PoolOf(const Job& job) {
    return job.index == kBoundary ? boundary_buffers_ : micro_buffers_;
  }

  EngineCore& core_;
  std::vector<UnitState> units_;
  std::deque<UnitId> wanted_;
  JobList jobs_;                                             // unended, in the order of their issue
  std::deque<JobBuffers> micro_buffers_, boundary_buffers_;  // the last set is the kept one
  std::vector<std::byte*>
      zero_pages_;  // as many times the same zeros as the largest unit has chunks
  int64_t zero_page_bytes_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t preferred_ = 0;  // sequence of the job whose runs go first
  bool finishing_ = false;
  int unfinished_ = 0;
  NormSum norm_;
};

}  // namespace strata
