#include "runtime/simulated_model.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/bf16.h"
#include "kernels/status.h"
#include "runtime/stopwatch.h"

namespace strata {
namespace {

class SimulatedModel final : public ReferenceModel {
 public:
  explicit SimulatedModel(const SimulatedOptions& options) : options_(options) {
    total_ = std::accumulate(options.elements.begin(), options.elements.end(), int64_t{0});
  }

  absl::Status Declare(Runtime& runtime) override {
    runtime_ = &runtime;
    for (size_t u = 0; u < options_.elements.size(); ++u) {
      const std::string name = absl::StrCat("u.", u);
      const UnitSpec spec{name, {{absl::StrCat(name, ".weight"), options_.elements[u], 0}}};
      STRATA_ASSIGN_OR_RETURN(UnitId unit,
                              runtime.AddUnit(spec, [](int, int64_t first, std::span<float> out) {
                                for (size_t i = 0; i < out.size(); ++i) {
                                  out[i] = static_cast<float>((first + i) % 251) / 251.0f;
                                }
                              }));
      units_.push_back(unit);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<MicroStepResult> MicroStep(const Batch& batch) override {
    const float target = MeanByte(batch);
    MicroStepResult result;
    for (size_t u = 0; u < units_.size(); ++u) {
      STRATA_ASSIGN_OR_RETURN(UnitView view, runtime_->Acquire(units_[u], Phase::kForward));
      const Stopwatch stopwatch;
      result.loss += UnitLoss(view, u, target);
      SleepUntil(stopwatch, ShareOf(u, options_.forward));
      result.forward += stopwatch.Elapsed();
      STRATA_RETURN_IF_ERROR(runtime_->Release(units_[u]));
    }
    for (size_t u = units_.size(); u-- > 0;) {
      STRATA_ASSIGN_OR_RETURN(UnitView view, runtime_->Acquire(units_[u], Phase::kBackward));
      const Stopwatch stopwatch;
      WriteGradient(view, u, target);
      SleepUntil(stopwatch, ShareOf(u, options_.backward));
      result.backward += stopwatch.Elapsed();
      STRATA_RETURN_IF_ERROR(runtime_->Reduce(units_[u]));
      STRATA_RETURN_IF_ERROR(runtime_->Release(units_[u]));
    }
    return result;
  }

  absl::StatusOr<double> Evaluate(const Batch& batch) override {
    const float target = MeanByte(batch);
    double loss = 0;
    for (size_t u = 0; u < units_.size(); ++u) {
      STRATA_ASSIGN_OR_RETURN(UnitView view, runtime_->Acquire(units_[u], Phase::kEval));
      loss += UnitLoss(view, u, target);
      STRATA_RETURN_IF_ERROR(runtime_->Release(units_[u]));
    }
    return loss;
  }

 private:
  static float MeanByte(const Batch& batch) {
    int64_t sum = 0;
    for (uint8_t token : batch.tokens) sum += token;
    const auto count = std::max<int64_t>(1, static_cast<int64_t>(batch.tokens.size()));
    return static_cast<float>(sum) / static_cast<float>(count) / 256.0f;
  }

  absl::Duration ShareOf(size_t unit, absl::Duration whole) const {
    return total_ == 0
               ? absl::ZeroDuration()
               : whole * static_cast<double>(options_.elements[unit]) / static_cast<double>(total_);
  }

  static void SleepUntil(const Stopwatch& stopwatch, absl::Duration duration) {
    absl::SleepFor(duration - stopwatch.Elapsed());
  }

  float Parameter(const UnitView& view, int64_t i) const {
    return options_.compute == DType::kF32
               ? static_cast<const float*>(view.parameters)[i]
               : Bf16ToF32(static_cast<const uint16_t*>(view.parameters)[i]);
  }

  // Half the squared distance, averaged over the model, from a sample of the unit's elements.
  double UnitLoss(const UnitView& view, size_t unit, float target) const {
    double sum = 0;
    int64_t samples = 0;
    for (int64_t i = 0; i < options_.elements[unit]; i += 64, ++samples) {
      const double distance = Parameter(view, i) - target;
      sum += 0.5 * distance * distance;
    }
    if (samples == 0) return 0;
    return sum / static_cast<double>(samples) * static_cast<double>(options_.elements[unit]) /
           static_cast<double>(total_);
  }

  void WriteGradient(const UnitView& view, size_t unit, float target) const {
    for (int64_t i = 0; i < options_.elements[unit]; ++i) {
      const float gradient = Parameter(view, i) - target;
      if (options_.compute == DType::kF32) {
        static_cast<float*>(view.gradients)[i] = gradient;
      } else {
        static_cast<uint16_t*>(view.gradients)[i] = F32ToBf16(gradient);
      }
    }
  }

  const SimulatedOptions options_;
  int64_t total_ = 0;
  Runtime* runtime_ = nullptr;
  std::vector<UnitId> units_;
};

}  // namespace

std::unique_ptr<ReferenceModel> MakeSimulatedModel(const SimulatedOptions& options) {
  return std::make_unique<SimulatedModel>(options);
}

}  // namespace strata
