#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "runtime/engine_core.h"
#include "runtime/gather_path.h"
#include "runtime/gradient_path.h"
#include "runtime/master_digest.h"
#include "runtime/node_bytes.h"
#include "runtime/shard_memory.h"
#include "runtime/step_boundary.h"
#include "runtime/step_report.h"
#include "runtime/unit.h"
#include "runtime/unit_agreement.h"
#include "scheduler/prefetch_scheduler.h"

namespace strata {

// What an application asks an Engine for.
struct EngineCall {
  enum class Kind : uint8_t { kAgree, kAcquire, kRelease, kReduce, kEndStep, kFlush, kDigest };
  Kind kind = Kind::kAcquire;
  UnitId unit{};
  Phase phase = Phase::kForward;
  StepInput input;
};

struct EngineReply {
  UnitView view;       // kAcquire
  StepReport report;   // kEndStep, kFlush
  std::string digest;  // kDigest
};
using ReplyDone = absl::AnyInvocable<void(absl::StatusOr<EngineReply>) &&>;

// All state of the runtime on one rank, and every decision. It never blocks and knows no threads,
// sockets or clocks but those of its lanes and loop, so the same object runs in production and in
// simulation. Calls are made, and their replies arrive, on the control loop; a waiting call ends
// within `timeout`, with the reason. The first error that is not the caller's is final: it ends
// every waiting call and answers every later one. See docs/architecture.md.
class Engine {
 public:
  struct Environment {
    Loop& control;
    Lane gather, reduce;
    const Topology& topology;
    Rank self;
    SharedMemory& shared;
    ShardMemory& memory;  // that the units' shards came from
  };

  // Plans, pools and unit memory for `units`; afterwards nothing allocates in bulk.
  // ResourceExhausted says what does not fit, what there is and the key to change. All borrowed but
  // `units`. On any thread, before the first call; kAgree is that first call.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Environment& environment,
                                                        const EngineOptions& options,
                                                        std::vector<Unit> units);

  void OnCall(EngineCall call, ReplyDone done);

  // Membership's verdict, or the application's reason to go.
  void Fail(absl::Status why);

  // Whether nothing that refers to this engine is on the lanes or on its way back from them. After
  // Fail that comes to pass once the lanes are closed, and stays.
  bool LeftLanes() const { return core_->on_lanes == 0; }

  const MemoryReport& memory() const { return memory_; }
  // The timeline so far; see Trace. When nothing runs on the loops any more.
  absl::Status WriteTrace(const std::string& path) const;
  const std::vector<Unit>& units() const { return core_->units; }

 private:
  struct PendingCall {
    EngineCall call;
    ReplyDone done;
    absl::Time begin;
    bool has_timer = false;
    TimerId timer{};
    int level = -1;  // that it is exposed to, as far as known
    uint64_t id = 0;
  };
  struct Hold {
    std::vector<Phase> phases;  // of the nested acquires
  };

  Engine(std::unique_ptr<EngineCore> core, PrefetchScheduler scheduler);

  absl::Status Begin(const EngineCall& call);
  absl::Status Acquire(UnitId unit, Phase phase);
  absl::Status Release(UnitId unit);
  absl::Status Reduce(UnitId unit);
  absl::Status EndStep(const StepInput& input);
  absl::Status CheckNothingHeld(absl::string_view call) const;

  void Progress();
  // The reply of a call that can end now.
  std::optional<absl::StatusOr<EngineReply>> TryEnd(const PendingCall& pending);
  std::optional<EngineReply> TryFlush();
  EngineReply EndOfStep(const PendingCall& pending);
  void Reply(PendingCall& pending, absl::StatusOr<EngineReply> reply);
  void Wait(PendingCall& pending);
  void OnDeadline(uint64_t id);
  void Account(const PendingCall& pending);

  std::optional<PendingOperation> WaitedFor(const EngineCall& call) const;
  std::string What(const EngineCall& call) const;
  bool IsFatal(const absl::Status& status) const;

  std::unique_ptr<EngineCore> core_;
  PrefetchScheduler scheduler_;
  GatherPath gathers_;
  GradientPath gradients_;
  StepBoundary boundary_;
  UnitAgreement agreement_;
  MasterDigest digest_;
  NodeBytes flush_bytes_;
  enum class FlushState : uint8_t { kDraining, kTelling, kTold } flush_state_{};
  MemoryReport memory_;
  std::vector<Hold> holds_;  // by unit
  std::vector<SchedulerAction> actions_;
  std::list<PendingCall> calls_;
  uint64_t next_id_ = 1;
  bool in_progress_ = false;
  bool agreed_ = false;
  absl::Time idle_since_ = absl::InfinitePast();  // the application computes since then
  absl::Time step_begin_;
};

}  // namespace strata
