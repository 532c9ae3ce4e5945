#include "runtime/optimizer.h"

#include "kernels/status.h"

namespace strata {
namespace {

// Four arrays of f32 are read or written: 1 MiB in one call.
constexpr int64_t kPieceElements = 64 << 10;

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options, size_t units)
    : options_(options), powers_(units, std::vector<Powers>(options.groups.size())) {
  for (const OptimizerOptions::Group& group : options.groups) {
    has_momentum_ = has_momentum_ || group.momentum != 0;
  }
}

absl::Status Optimizer::SetGroups(std::span<const OptimizerOptions::Group> groups) {
  if (groups.empty()) return absl::OkStatus();
  if (groups.size() != options_.groups.size()) {
    return absl::InvalidArgumentError(absl::StrCat("EndStep: ", groups.size(),
                                                   " parameter groups, and the optimizer has ",
                                                   options_.groups.size()));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (options_.kind == OptimizerKind::kSgd && groups[i].momentum != 0 && !has_momentum_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "EndStep: group ", i, " asks for momentum ", groups[i].momentum,
          ", but the optimizer began without: give at least one group a momentum at start"));
    }
  }
  options_.groups.assign(groups.begin(), groups.end());
  return absl::OkStatus();
}

void Optimizer::AddUpdate(const Unit& unit, float clip, LaneJob& job) {
  std::vector<Powers>& powers = powers_[Index(unit.id)];
  for (size_t g = 0; g < powers.size(); ++g) {
    powers[g].beta1 *= static_cast<double>(options_.groups[g].beta1);
    powers[g].beta2 *= static_cast<double>(options_.groups[g].beta2);
  }
  for (const OptimizerRange& range : unit.optimizer_ranges) {
    if (options_.kind == OptimizerKind::kAdamW) {
      AddAdamW(unit, range, powers[range.group], clip, job);
    } else {
      AddSgd(unit, range, clip, job);
    }
  }
}

void Optimizer::AddAdamW(const Unit& unit, const OptimizerRange& range, const Powers& powers,
                         float clip, LaneJob& job) const {
  const OptimizerOptions::Group& group = options_.groups[range.group];
  const AdamWCall whole{.parameters = unit.master.floats() + range.begin,
                        .first_moment = unit.moments[0].floats() + range.begin,
                        .second_moment = unit.moments[1].floats() + range.begin,
                        .gradient = unit.accumulator.floats() + range.begin,
                        .clip = clip,
                        .learning_rate = group.learning_rate,
                        .beta1 = group.beta1,
                        .beta2 = group.beta2,
                        .epsilon = group.epsilon,
                        .weight_decay = group.weight_decay,
                        .beta1_power = powers.beta1,
                        .beta2_power = powers.beta2};
  job.AddKernel(range.elements, kPieceElements,
                [whole](int64_t first, int64_t count) -> KernelCall {
                  AdamWCall part = whole;
                  part.parameters += first;
                  part.first_moment += first;
                  part.second_moment += first;
                  part.gradient += first;
                  part.elements = count;
                  return part;
                });
}

void Optimizer::AddSgd(const Unit& unit, const OptimizerRange& range, float clip,
                       LaneJob& job) const {
  const OptimizerOptions::Group& group = options_.groups[range.group];
  const bool momentum = group.momentum != 0;
  const SgdCall whole{.parameters = unit.master.floats() + range.begin,
                      .momentum = momentum ? unit.moments[0].floats() + range.begin : nullptr,
                      .gradient = unit.accumulator.floats() + range.begin,
                      .clip = clip,
                      .learning_rate = group.learning_rate,
                      .momentum_factor = group.momentum,
                      .weight_decay = group.weight_decay};
  job.AddKernel(range.elements, kPieceElements,
                [whole](int64_t first, int64_t count) -> KernelCall {
                  SgdCall part = whole;
                  part.parameters += first;
                  if (part.momentum != nullptr) part.momentum += first;
                  part.gradient += first;
                  part.elements = count;
                  return part;
                });
}

}  // namespace strata
