#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "comm/plan_run.h"
#include "comm/plan_runner.h"
#include "comm/plan_shape.h"

namespace strata {

// The body of a PlanRunner. It outlives the runner for as long as callbacks are outstanding: each
// holds a Ticket. In the lane's loop only.
struct PlanRunner::State {
  // What a callback carries: 16 bytes, so that a Done or Task holds it without allocating.
  class Ticket {
   public:
    Ticket(State& state, uint32_t run, uint32_t step) : state_(&state), run_(run), step_(step) {
      ++state.references;
    }
    Ticket(Ticket&& other) noexcept
        : state_(std::exchange(other.state_, nullptr)), run_(other.run_), step_(other.step_) {}
    ~Ticket() {
      if (state_ != nullptr) state_->Release();
    }

    State& state() const { return *state_; }
    uint32_t run() const { return run_; }
    uint32_t step() const { return step_; }

   private:
    State* state_;
    uint32_t run_;
    uint32_t step_;
  };

  State(Loop& loop, Stream& stream, std::vector<Transport*> transports, Options options);
  void Release() {
    if (--references == 0) delete this;
  }

  void Start(std::shared_ptr<const Plan> plan, const PlanBuffers& buffers, RunOptions options,
             Done done);
  void Prefer(uint64_t priority);
  // Ends the lane with `why`, unless it has ended before.
  void End(absl::Status why);
  // Starts nothing any more, and touches no transport.
  void Orphan();
  LevelCounters Counters(int level) const;

  const PlanRun* Find(uint32_t operation) const;
  std::string Describe(const PlanRun& run) const;
  std::string LevelName(int level) const;

  Loop& loop;
  Stream& stream;
  const std::vector<Transport*> transports;
  const Options options;

 private:
  struct Level {
    LevelCounters counters;
    int in_flight = 0;
    absl::Time busy_since;
  };
  // All or some bytes of a local step, launched.
  struct Piece {
    PlanRun* run;
    int step;
    int64_t bytes;
    bool last;
  };
  struct Shape {
    explicit Shape(const Plan& plan, int levels) : shape(plan, levels) {}
    PlanShape shape;
    std::vector<PlanRun*> idle;
  };

  PlanRun& TakeRun(std::shared_ptr<const Plan> plan);
  void MakeReady(PlanRun& run, int step);
  // Starts what is ready and allowed to.
  void Pump();
  void PumpSends(int level);
  int64_t CreditOf(const Step& send) const;
  void PumpLocal();
  bool LaunchPiece(PlanRun& run, int64_t room);
  void StartTransfer(PlanRun& run, int step);
  Done TransferDone(PlanRun& run, int step);
  void OnTransfer(PlanRun& run, int step, absl::Status status);
  void OnLocal(const absl::Status& status);
  void Complete(PlanRun& run, int step);
  void WatchDeadline(PlanRun& run);
  // Lets a run without callbacks of its own end outside the call.
  void PostEnd(PlanRun& run);
  // If the run is over: forgets it and reports. May delete this, unless the caller holds a Ticket.
  void MaybeFinish(PlanRun& run);

  absl::Status error_;
  std::vector<Level> levels_;
  std::unordered_map<const Plan*, Shape> shapes_;
  std::vector<std::unique_ptr<PlanRun>> runs_;
  std::vector<PlanRun*> active_;   // in order of priority
  std::vector<Piece> pieces_;      // launched, waiting for the stream
  std::vector<PlanRun*> touched_;  // scratch of OnLocal
  uint64_t next_sequence_ = 0;
  uint64_t preferred_ = 0;  // priority of runs that go first

 public:
  int references = 1;  // the runner's and the tickets'
};

}  // namespace strata
