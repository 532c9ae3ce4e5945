#include "runtime/torch/gpt.h"

#include <vector>

#include "kernels/status.h"
#include "runtime/stopwatch.h"
#include "runtime/torch/adapter.h"
#include "runtime/torch/gpt_modules.h"

namespace strata {
namespace {

class Gpt final : public ReferenceModel {
 public:
  explicit Gpt(const GptOptions& options) : options_(options), modules_(options) {}

  absl::Status Declare(Runtime& runtime) override {
    adapter_ = std::make_unique<TorchAdapter>(runtime, options_.compute);
    for (size_t i = 0; i < modules_.layer_count(); ++i) {
      GptLayer layer;
      STRATA_RETURN_IF_ERROR(GuardTorch([&] { layer = modules_.MakeLayer(i); }));
      STRATA_ASSIGN_OR_RETURN(TorchUnit * unit,
                              adapter_->AddUnit(layer.name, layer.module, layer.uses));
      units_.push_back(unit);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<MicroStepResult> MicroStep(const Batch& batch) override {
    MicroStepResult result;
    adapter_->TakeBlocked();
    const Stopwatch forward;
    STRATA_ASSIGN_OR_RETURN(torch::Tensor loss, adapter_->Forward([&] { return Loss(batch); }));
    result.loss = loss.item<float>();
    result.forward = forward.Elapsed() - adapter_->TakeBlocked();
    const Stopwatch backward;
    STRATA_RETURN_IF_ERROR(adapter_->Backward(loss));
    result.backward = backward.Elapsed() - adapter_->TakeBlocked();
    return result;
  }

  absl::StatusOr<double> Evaluate(const Batch& batch) override {
    STRATA_ASSIGN_OR_RETURN(torch::Tensor loss, adapter_->Evaluate([&] { return Loss(batch); }));
    return loss.item<float>();
  }

 private:
  torch::Tensor Loss(const Batch& batch) {
    return modules_.Loss(batch, [&](size_t index, absl::FunctionRef<torch::Tensor()> compute) {
      return units_[index]->Call(compute);
    });
  }

  const GptOptions options_;
  GptModules modules_;
  std::unique_ptr<TorchAdapter> adapter_;
  std::vector<TorchUnit*> units_;
};

}  // namespace

std::unique_ptr<ReferenceModel> MakeGpt(const GptOptions& options) {
  return std::make_unique<Gpt>(options);
}

}  // namespace strata
