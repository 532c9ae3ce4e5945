#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "runtime/clip.h"
#include "runtime/engine_core.h"
#include "runtime/exchange.h"
#include "runtime/gather_path.h"
#include "runtime/gradient_path.h"
#include "runtime/node_bytes.h"
#include "runtime/optimizer.h"
#include "runtime/step_report.h"
#include "scheduler/prefetch_scheduler.h"

namespace strata {

// EndStep, from the call to the last update. [Note: The boundary]
//   joins    every rank tells how often it joined each unit's reduce, at once
//   reduces  zeros make up for what a rank did not join; the tail of the reduces ends
//   record   sum of squares, loss and tokens of every rank: all compute the same norm and decision;
//            beside it, the bytes of the step before, which is final by now
//   update   publishes and the next step's first gathers are issued, the optimizer runs unit by
//   unit
//            in the order of their publishes, each of which starts when its unit is done
// Control loop.
class StepBoundary {
 public:
  StepBoundary(EngineCore& core, PrefetchScheduler& scheduler, GatherPath& gathers,
               GradientPath& gradients);

  absl::Status Allocate(ShardMemory& memory);

  // InvalidArgument when the input does not fit; then nothing has changed.
  absl::Status Begin(const StepInput& input);
  // Goes on as far as it can; called whenever something has ended.
  void Advance();
  bool done() const { return state_ == State::kDone; }
  void Reset() { state_ = State::kIdle; }

  // When the reduces' tail and the exchange of records ended, for the report of waits.
  absl::Time reduced() const { return reduced_; }
  absl::Time decided() const { return decided_; }
  // What keeps it waiting.
  std::optional<PendingOperation> Pending() const;
  // Per level, of both lanes, from boundary to boundary.
  std::span<const absl::Duration> busy() const { return busy_; }

 private:
  enum class State : uint8_t { kIdle, kJoins, kReduces, kRecord, kQuiet, kUpdate, kDone };

  void OnJoins();
  void SendRecord();
  void OnRecord();
  void OnDecided();
  absl::Status ReadRecords();
  void SampleBusy();
  void BeginUpdate();
  void UpdateNext();
  void OnUpdated(UnitId unit, absl::Time begin, absl::Status status);

  EngineCore& core_;
  PrefetchScheduler& scheduler_;
  GatherPath& gathers_;
  GradientPath& gradients_;
  Optimizer optimizer_;
  Exchange joins_, record_;
  NodeBytes node_bytes_;
  int exchanges_ = 0;  // of records and bytes, yet to end
  State state_ = State::kIdle;
  StepInput input_;
  Clip clip_;
  std::vector<bool> real_;     // by unit: someone reduced a gradient
  std::vector<int> required_;  // by unit: joins
  std::vector<SchedulerAction> actions_;
  std::vector<UnitId> updates_;  // in the order of their publishes
  size_t next_update_ = 0;
  int64_t missed_before_ = 0;
  int samples_ = 0;  // lanes yet to tell
  std::array<std::vector<absl::Duration>, 2> busy_before_, busy_now_;
  std::vector<absl::Duration> busy_;
  absl::Time reduced_, decided_;
};

}  // namespace strata
