#include "runtime/lane_job.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace strata {

void LaneJob::AddKernel(int64_t elements, int64_t piece_elements, CutKernel cut) {
  if (elements == 0) return;
  STRATA_CHECK(piece_elements > 0);
  stages_.push_back(
      {.elements = elements, .piece_elements = piece_elements, .cut = std::move(cut)});
}

void LaneJob::AddRun(std::shared_ptr<const Plan> plan, const PlanBuffers& buffers,
                     RunOptions options) {
  stages_.push_back({.plan = std::move(plan), .buffers = buffers, .options = std::move(options)});
}

void LaneJob::Start(std::unique_ptr<LaneJob> job, Loop& control, Done done) {
  job->control_ = &control;
  job->done_ = std::move(done);
  Loop& loop = *job->lane_.loop;
  loop.Post([job = std::move(job)]() mutable { Step(std::move(job)); });
}

void LaneJob::Step(std::unique_ptr<LaneJob> job) {
  LaneJob& self = *job;
  Stream& stream = *self.lane_.stream;
  const bool at_end = self.stage_ == self.stages_.size();
  // What follows kernels - a transfer, or the end - may begin when they have ended.
  if (self.kernels_pending_ && (at_end || !self.stages_[self.stage_].cut)) {
    self.kernels_pending_ = false;
    stream.Notify([job = std::move(job)](absl::Status status) mutable {
      if (status.ok()) return Step(std::move(job));
      End(std::move(job), std::move(status));
    });
    return;
  }
  if (at_end) return End(std::move(job), absl::OkStatus());
  Stage& stage = self.stages_[self.stage_];
  if (!stage.cut) {
    ++self.stage_;
    PlanRunner& runner = *self.lane_.runner;
    runner.Run(std::move(stage.plan), stage.buffers, std::move(stage.options),
               [job = std::move(job)](absl::Status status) mutable {
                 if (status.ok()) return Step(std::move(job));
                 End(std::move(job), std::move(status));
               });
    return;
  }
  const int64_t elements = std::min(stage.piece_elements, stage.elements - self.element_);
  stream.Launch(stage.cut(self.element_, elements));
  self.kernels_pending_ = true;
  self.element_ += elements;
  if (self.element_ == stage.elements) {
    self.element_ = 0;
    ++self.stage_;
  }
  Loop& loop = *self.lane_.loop;
  loop.Post([job = std::move(job)]() mutable { Step(std::move(job)); });
}

void LaneJob::End(std::unique_ptr<LaneJob> job, absl::Status status) {
  job->control_->Post([done = std::move(job->done_), status = std::move(status)]() mutable {
    std::move(done)(std::move(status));
  });
}

}  // namespace strata
