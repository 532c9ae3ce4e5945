#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "runtime/lane_job.h"
#include "runtime/optimizer_options.h"
#include "runtime/unit_table.h"

namespace strata {

// The optimizer's host side: hyperparameters per group and, per unit and group, the powers of the
// betas, by repeated fp64 multiplication; a unit that is not updated does not advance. One thread.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, size_t units);

  // InvalidArgument when the groups do not match: another number, or a momentum where SGD keeps
  // none.
  absl::Status SetGroups(std::span<const OptimizerOptions::Group> groups);

  // Appends this step's update of `unit`'s shard: gradient in the accumulator's front, times
  // `clip`.
  void AddUpdate(const Unit& unit, float clip, LaneJob& job);

 private:
  struct Powers {
    double beta1 = 1, beta2 = 1;
  };
  void AddAdamW(const Unit& unit, const OptimizerRange& range, const Powers& powers, float clip,
                LaneJob& job) const;
  void AddSgd(const Unit& unit, const OptimizerRange& range, float clip, LaneJob& job) const;

  OptimizerOptions options_;
  bool has_momentum_ = false;
  std::vector<std::vector<Powers>> powers_;  // [unit][group]
};

}  // namespace strata
