#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "comm/lane.h"
#include "comm/plan_runner.h"
#include "kernels/stream.h"
#include "kernels/types.h"

namespace strata {

// The part of a kernel's work that begins at element `first`.
using CutKernel = absl::AnyInvocable<KernelCall(int64_t first, int64_t elements)>;

// Kernels and plan runs that follow one another on one lane, without a hop to the control loop in
// between. Kernels are cut into pieces of at most 1 MiB with other tasks of the lane in between.
class LaneJob {
 public:
  explicit LaneJob(const Lane& lane) : lane_(lane) {}

  // `piece_elements`: at most this many at once; a divisor of the page where memory is paged.
  void AddKernel(int64_t elements, int64_t piece_elements, CutKernel cut);
  void AddRun(std::shared_ptr<const Plan> plan, const PlanBuffers& buffers, RunOptions options);

  // Runs the stages in order; `done` runs on `control` with the first error. From any loop.
  static void Start(std::unique_ptr<LaneJob> job, Loop& control, Done done);

 private:
  struct Stage {
    int64_t elements = 0, piece_elements = 0;
    CutKernel cut;  // empty for a run
    std::shared_ptr<const Plan> plan;
    PlanBuffers buffers;
    RunOptions options;
  };

  static void Step(std::unique_ptr<LaneJob> job);
  static void End(std::unique_ptr<LaneJob> job, absl::Status status);

  Lane lane_;
  std::vector<Stage> stages_;
  size_t stage_ = 0;
  int64_t element_ = 0;
  bool kernels_pending_ = false;  // launched since the last Notify
  Loop* control_ = nullptr;
  Done done_;
};

}  // namespace strata
