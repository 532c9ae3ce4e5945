#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/runtime.h"

namespace strata {

class TorchAdapter;

// Runs `call`, which may throw, and turns what it throws into a status: ResourceExhausted where
// there is no memory.
absl::Status GuardTorch(absl::FunctionRef<void()> call);

// A libtorch module whose parameters are one unit. Between its uses their memory is gone; it is
// back, at the same addresses, whenever the module runs, forward or backward.
class TorchUnit {
 public:
  TorchUnit(TorchAdapter& adapter, UnitId id, std::shared_ptr<torch::nn::Module> module, int uses);
  ~TorchUnit();

  // Runs `layer`, which may use the module's parameters, with the unit gathered, and sees to it
  // that the unit is gathered again before the backward pass goes through what `layer` returned.
  // Inside TorchAdapter::Forward or Evaluate only.
  torch::Tensor Call(absl::FunctionRef<torch::Tensor()> layer);

 private:
  friend class TorchAdapter;
  class GradientHook;

  void EnterForward();
  void LeaveForward();
  void EnterBackward();
  void LeaveBackward();
  void OnGradient();
  void BindParameters(void* memory);
  void BindGradients(void* memory);

  TorchAdapter& adapter_;
  const UnitId id_;
  const std::shared_ptr<torch::nn::Module> module_;
  const int uses_;  // Calls per pass: more than one for tied weights
  UnitShape shape_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  int calls_ = 0;             // of this pass
  bool in_backward_ = false;  // held for the backward pass
  size_t gradients_ready_ = 0;
};

// Trains libtorch C++ modules on a Runtime. libtorch modules have no hooks on forward: the model
// calls its layers through TorchUnit::Call. A parameter's gradient is written straight into the
// unit's gradient buffer; when every parameter of the unit has its gradient, the unit is reduced
// and released. Tied weights are one unit with several uses, held from the first to the last. One
// thread. No exception leaves a public function.
class TorchAdapter {
 public:
  // `compute` is the runtime's compute dtype. Sets libtorch to one thread: its sums change with the
  // number of threads.
  TorchAdapter(Runtime& runtime, DType compute);
  ~TorchAdapter();

  // Makes the module's parameters the next unit: takes their f32 values, frees their memory. Same
  // order on all ranks. The returned unit is the adapter's.
  absl::StatusOr<TorchUnit*> AddUnit(const std::string& name,
                                     std::shared_ptr<torch::nn::Module> module, int uses = 1);

  // One micro-step's forward pass: `pass` returns the loss.
  absl::StatusOr<torch::Tensor> Forward(absl::FunctionRef<torch::Tensor()> pass);
  // Its backward pass, and the hand-over of all gradients.
  absl::Status Backward(const torch::Tensor& loss);
  // A pass without gradients.
  absl::StatusOr<torch::Tensor> Evaluate(absl::FunctionRef<torch::Tensor()> pass);

  // Time blocked in the runtime since the last call of this.
  absl::Duration TakeBlocked();

 private:
  friend class TorchUnit;
  UnitView Acquire(const TorchUnit& unit, Phase phase);
  void Reduce(const TorchUnit& unit);
  void Release(const TorchUnit& unit);
  template <typename F>
  auto Timed(F call);
  absl::StatusOr<torch::Tensor> RunPass(absl::FunctionRef<torch::Tensor()> pass);

  Runtime& runtime_;
  const DType compute_;
  Phase phase_ = Phase::kForward;
  std::vector<std::unique_ptr<TorchUnit>> units_;
  absl::Duration blocked_;
};

}  // namespace strata
