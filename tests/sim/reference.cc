#include "tests/sim/reference.h"

#include <algorithm>
#include <cmath>

#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/sha256.h"
#include "tests/sim/toy_model.h"

namespace strata {
namespace {

using Values = std::vector<float>;

// The canonical tree over `leaves`: halves, the larger one first; every sum rounded once.
Values Tree(std::vector<Values> leaves, DType dtype) {
  if (leaves.size() == 1) return std::move(leaves[0]);
  const auto half = leaves.begin() + static_cast<int64_t>((leaves.size() + 1) / 2);
  Values left = Tree({leaves.begin(), half}, dtype);
  const Values right = Tree({half, leaves.end()}, dtype);
  for (size_t i = 0; i < left.size(); ++i) left[i] = toy::Round(left[i] + right[i], dtype);
  return left;
}

struct Reference {
  const ReferenceRun& run;
  std::vector<Values> masters, first, second;  // by unit, gaps included
  std::vector<std::vector<int64_t>> offsets;
  std::vector<double> beta1_powers, beta2_powers;  // by unit: one that is not updated stays behind
  int ranks = 0;

  explicit Reference(const ReferenceRun& r) : run(r) {
    for (int node : run.nodes) ranks += node;
    beta1_powers.assign(run.units.size(), 1);
    beta2_powers.assign(run.units.size(), 1);
    for (size_t u = 0; u < run.units.size(); ++u) {
      int64_t size = 0;
      offsets.emplace_back();
      for (int64_t elements : run.units[u]) {
        offsets[u].push_back(size);
        size += (elements + 63) / 64 * 64;
      }
      Values master(static_cast<size_t>(size));
      for (size_t p = 0; p < run.units[u].size(); ++p) {
        for (int64_t e = 0; e < run.units[u][p]; ++e) {
          const int64_t at = offsets[u][p] + e;
          master[at] = toy::Initial(run.seed, static_cast<int>(u), at);
        }
      }
      first.emplace_back(master.size());
      second.emplace_back(master.size());
      masters.push_back(std::move(master));
    }
  }

  bool Has(int rank, int step, int micro, size_t u) const {
    return !run.has_gradient || run.has_gradient(rank, step, micro, static_cast<int>(u));
  }

  bool HasAny(int step, size_t u) const {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int micro = 0; micro < run.accumulation; ++micro) {
        if (Has(rank, step, micro, u)) return true;
      }
    }
    return false;
  }

  Values Gradient(int rank, int step, int micro, size_t u) const {
    int position = rank;
    if (run.swap_data && rank == 0) position = ranks - 1;
    if (run.swap_data && rank == ranks - 1) position = 0;
    const bool lost = !Has(rank, step, micro, u);
    Values gradient(masters[u].size());
    const toy::Data data{run.seed, position, step, micro};
    for (size_t p = 0; p < run.units[u].size() && !lost; ++p) {
      for (int64_t e = 0; e < run.units[u][p]; ++e) {
        const int64_t at = offsets[u][p] + e;
        const float value = toy::Round(masters[u][at], run.compute_dtype);
        gradient[at] =
            toy::Round(toy::Gradient(value, data, static_cast<int>(u), at), run.compute_dtype);
      }
    }
    return gradient;
  }

  Values Rounded(Values values) const {
    for (float& value : values) value = toy::Round(value, run.gradient_dtype);
    return values;
  }

  Values Combine(std::vector<Values> leaves) const {
    if (run.reverse_tree) std::reverse(leaves.begin(), leaves.end());
    return Tree(std::move(leaves), run.gradient_dtype);
  }

  // Sums over nodes of one micro-step, or of what ranks have accumulated.
  std::vector<Values> OverNodes(std::vector<Values> ranks_values) const {
    std::vector<Values> nodes;
    auto at = ranks_values.begin();
    for (int size : run.nodes) {
      nodes.push_back(Combine({at, at + size}));
      at += size;
    }
    return nodes;
  }

  Values StepGradient(int step, size_t u) const {
    std::vector<Values> sums;  // of whatever reduces at the boundary
    for (int micro = 0; micro < run.accumulation; ++micro) {
      std::vector<Values> values;
      for (int rank = 0; rank < ranks; ++rank) values.push_back(Gradient(rank, step, micro, u));
      if (run.levels_per_micro_step > 0) {
        for (Values& value : values) value = Rounded(std::move(value));
        values = OverNodes(std::move(values));
      }
      if (run.levels_per_micro_step > 1) values = {Combine(std::move(values))};
      if (micro == 0) {
        sums = std::move(values);
        continue;
      }
      for (size_t i = 0; i < sums.size(); ++i) {
        for (size_t e = 0; e < sums[i].size(); ++e) sums[i][e] += values[i][e];
      }
    }
    if (run.levels_per_micro_step < 2) {
      for (Values& sum : sums) sum = Rounded(std::move(sum));
      if (run.levels_per_micro_step == 0) sums = OverNodes(std::move(sums));
      sums = {Combine(std::move(sums))};
    }
    const auto factor = static_cast<float>(1.0 / (static_cast<double>(ranks) * run.accumulation));
    for (float& value : sums[0]) value *= factor;
    return std::move(sums[0]);
  }

  float ClipFactor(double norm) const {
    if (run.clip == 0 || norm <= static_cast<double>(run.clip)) return 1;
    float factor = static_cast<float>(static_cast<double>(run.clip) / norm);
    while (static_cast<double>(factor) * norm > static_cast<double>(run.clip)) {
      factor = std::nextafterf(factor, 0);
    }
    return factor;
  }

  double Loss(int step) const {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += toy::Noise({run.seed, rank, step, 0}, 0, 0);
    return sum;
  }

  double Step(int step) {
    std::vector<Values> gradients;
    NormSum sum;
    for (size_t u = 0; u < masters.size(); ++u) {
      gradients.push_back(StepGradient(step, u));
      sum.AddBlocks(gradients[u]);
    }
    const float clip = ClipFactor(sum.Sqrt());
    for (size_t u = 0; u < masters.size(); ++u) {
      if (!HasAny(step, u)) continue;
      const double beta1_power = beta1_powers[u] *= static_cast<double>(0.9f);
      const double beta2_power = beta2_powers[u] *= static_cast<double>(0.999f);
      const auto size = static_cast<int64_t>(masters[u].size());
      if (run.adam) {
        AdamW({.parameters = masters[u].data(),
               .first_moment = first[u].data(),
               .second_moment = second[u].data(),
               .gradient = gradients[u].data(),
               .elements = size,
               .clip = clip,
               .learning_rate = 1e-2f,
               .beta1 = 0.9f,
               .beta2 = 0.999f,
               .epsilon = 1e-8f,
               .weight_decay = run.weight_decay,
               .beta1_power = beta1_power,
               .beta2_power = beta2_power});
      } else {
        Sgd({.parameters = masters[u].data(),
             .momentum = run.momentum != 0 ? first[u].data() : nullptr,
             .gradient = gradients[u].data(),
             .elements = size,
             .clip = clip,
             .learning_rate = 1e-2f,
             .momentum_factor = run.momentum,
             .weight_decay = run.weight_decay});
      }
    }
    return sum.Sqrt();
  }
};

}  // namespace

ReferenceResult RunReference(const ReferenceRun& run) {
  Reference reference(run);
  ReferenceResult result;
  for (int step = 0; step < run.steps; ++step) {
    result.norms.push_back(reference.Step(step));
    result.losses.push_back(reference.Loss(step));
  }
  Sha256 sha;
  for (size_t u = 0; u < run.units.size(); ++u) {
    for (size_t p = 0; p < run.units[u].size(); ++p) {
      sha.Update(std::as_bytes(
          std::span(reference.masters[u]).subspan(reference.offsets[u][p], run.units[u][p])));
    }
  }
  result.digest = sha.HexDigest();
  return result;
}

}  // namespace strata
