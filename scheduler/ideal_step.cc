#include "scheduler/ideal_step.h"

#include <algorithm>

namespace strata {
namespace {

// What each group of one level sends in one direction, per occurrence.
struct LevelTraffic {
  double gather = 0;    // of the parameters, in each forward and each backward
  double reduce = 0;    // of the gradients, in each backward
  double boundary = 0;  // of the gradients, once at the end of the step
  double publish = 0;   // of the parameters, once per step
};

LevelTraffic TrafficOf(const StepShape& shape, int level, int degree) {
  if (degree <= 1) return {};
  const bool parameters = shape.layout.parameters.Has(level);
  const bool gradients = shape.layout.gradients.Has(level);
  const bool optimizer = shape.layout.optimizer.Has(level);
  const double share = (degree - 1.0) / degree;
  const double parameter_bytes = share * static_cast<double>(shape.parameter_bytes);
  const double gradient_bytes = share * static_cast<double>(shape.gradient_bytes);
  LevelTraffic traffic;
  if (parameters) traffic.gather = parameter_bytes;
  if (gradients) traffic.reduce = gradient_bytes;
  if (optimizer && !gradients) traffic.boundary = gradient_bytes;
  if (!optimizer) traffic.boundary = 2 * gradient_bytes;  // a whole all-reduce
  if (optimizer && !parameters) traffic.publish = parameter_bytes;
  return traffic;
}

double TotalBytes(const LevelTraffic& traffic, int accumulation) {
  return accumulation * (2 * traffic.gather + traffic.reduce) + traffic.boundary + traffic.publish;
}

int LargestDegree(const Level& level) {
  return level.children.empty() ? 1
                                : *std::max_element(level.children.begin(), level.children.end());
}

absl::Duration LevelTime(const StepShape& shape, const Topology& topology, int level) {
  const Link& link = topology.levels()[level].link;
  const int count = shape.accumulation;
  const absl::Duration compute = count * (shape.forward + shape.backward);
  if (link.bytes_per_second <= 0) return compute;
  const auto time = [&link](double bytes) {
    return absl::Seconds(bytes / static_cast<double>(link.bytes_per_second));
  };
  const LevelTraffic traffic = TrafficOf(shape, level, LargestDegree(topology.levels()[level]));
  // Gathers may run at any time of the step, so only the sum counts.
  if (traffic.gather > 0) return std::max(compute, time(TotalBytes(traffic, count)));
  // Otherwise publish has the first forward to hide behind, a micro-step's reduce its own backward,
  // and the boundary the last backward.
  const absl::Duration publish = time(traffic.publish), reduce = time(traffic.reduce);
  return std::max(shape.forward, publish) +
         (count - 1) * (std::max(shape.backward, reduce) + shape.forward) +
         std::max(shape.backward, reduce + time(traffic.boundary));
}

}  // namespace

double StepBytes(const StepShape& shape, int level, int degree) {
  return TotalBytes(TrafficOf(shape, level, degree), shape.accumulation);
}

absl::Duration IdealStep(const StepShape& shape, const Topology& topology) {
  absl::Duration slowest = absl::ZeroDuration();
  for (int level = 0; level < topology.level_count(); ++level) {
    slowest = std::max(slowest, LevelTime(shape, topology, level));
  }
  return slowest;
}

}  // namespace strata
