#include "runtime/torch/adapter.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "runtime/stopwatch.h"

namespace strata {
namespace {

// Carries a status through libtorch, which reports by exceptions only. Never leaves this file.
struct StatusException : std::exception {
  explicit StatusException(absl::Status what_went_wrong) : status(std::move(what_went_wrong)) {}
  const char* what() const noexcept override { return "strata: operation failed"; }
  absl::Status status;
};

void ThrowUnlessOk(absl::Status status) {
  if (!status.ok()) throw StatusException(std::move(status));
}

torch::ScalarType ScalarTypeOf(DType dtype) {
  return dtype == DType::kF32 ? torch::kFloat32 : torch::kBFloat16;
}

absl::Status NoMemory() {
  return absl::ResourceExhaustedError(
      "the model's mathematics does not fit the memory of this host; lower train.micro_batch, "
      "model.context or the size of the model");
}

}  // namespace

absl::Status GuardTorch(absl::FunctionRef<void()> call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const StatusException& exception) {
    return exception.status;
  } catch (const std::bad_alloc&) {
    return NoMemory();
  } catch (const c10::Error& error) {
    // Its allocator has no type of error of its own; what() has a stack trace.
    const std::string message = error.what_without_backtrace();
    if (absl::StrContains(message, "can't allocate memory")) return NoMemory();
    return absl::InternalError(absl::StrCat("libtorch: ", message));
  } catch (const std::exception& exception) {
    return absl::InternalError(absl::StrCat("libtorch: ", exception.what()));
  }
}

// Runs after a parameter's gradient has been added to the gradient buffer.
class TorchUnit::GradientHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit GradientHook(TorchUnit& unit) : unit_(unit) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    unit_.OnGradient();
    return outputs;
  }

 private:
  TorchUnit& unit_;
};

TorchUnit::TorchUnit(TorchAdapter& adapter, UnitId id, std::shared_ptr<torch::nn::Module> module,
                     int uses)
    : adapter_(adapter), id_(id), module_(std::move(module)), uses_(uses) {}

TorchUnit::~TorchUnit() = default;

torch::Tensor TorchUnit::Call(absl::FunctionRef<torch::Tensor()> layer) {
  EnterForward();
  torch::Tensor output = layer();
  if (output.requires_grad()) {
    output.register_hook([this](const torch::Tensor&) { EnterBackward(); });
  }
  LeaveForward();
  return output;
}

void TorchUnit::EnterForward() {
  if (calls_++ > 0) return;
  const bool first_time = accumulators_.empty();
  BindParameters(adapter_.Acquire(*this, adapter_.phase_).parameters);
  if (!first_time) return;
  for (torch::Tensor& parameter : parameters_) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameter));
    accumulators_.back()->add_post_hook(std::make_unique<GradientHook>(*this));
  }
}

void TorchUnit::LeaveForward() {
  if (calls_ < uses_) return;
  calls_ = 0;
  adapter_.Release(*this);
}

void TorchUnit::EnterBackward() {
  if (in_backward_) return;
  BindGradients(adapter_.Acquire(*this, Phase::kBackward).gradients);
  in_backward_ = true;
  gradients_ready_ = 0;
}

void TorchUnit::OnGradient() {
  if (++gradients_ready_ == parameters_.size()) LeaveBackward();
}

void TorchUnit::LeaveBackward() {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  in_backward_ = false;
  adapter_.Reduce(*this);
  adapter_.Release(*this);
}

// The addresses are the unit's for life, so binding once is enough.
void TorchUnit::BindParameters(void* memory) {
  if (!accumulators_.empty()) return;
  const auto type = ScalarTypeOf(adapter_.compute_);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    auto* first = static_cast<std::byte*>(memory) + shape_.offsets[p] * SizeOf(adapter_.compute_);
    parameters_[p].set_data(torch::from_blob(first, sizes_[p], torch::dtype(type)));
  }
}

void TorchUnit::BindGradients(void* memory) {
  const auto type = ScalarTypeOf(adapter_.compute_);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    auto* first = static_cast<std::byte*>(memory) + shape_.offsets[p] * SizeOf(adapter_.compute_);
    parameters_[p].mutable_grad() = torch::from_blob(first, sizes_[p], torch::dtype(type));
  }
}

TorchAdapter::TorchAdapter(Runtime& runtime, DType compute) : runtime_(runtime), compute_(compute) {
  at::set_num_threads(1);
}

TorchAdapter::~TorchAdapter() = default;

absl::StatusOr<TorchUnit*> TorchAdapter::AddUnit(const std::string& name,
                                                 std::shared_ptr<torch::nn::Module> module,
                                                 int uses) {
  TorchUnit* unit = nullptr;
  const absl::Status status = GuardTorch([&] {
    UnitSpec spec{name, {}};
    std::vector<torch::Tensor> values;
    for (const auto& item : module->named_parameters()) {
      spec.parameters.push_back({absl::StrCat(name, ".", item.key()), item.value().numel(), 0});
      values.push_back(item.value().detach().to(torch::kFloat32).contiguous());
    }
    absl::StatusOr<UnitId> id =
        runtime_.AddUnit(spec, [&](int parameter, int64_t first, std::span<float> out) {
          std::memcpy(out.data(), values[parameter].data_ptr<float>() + first,
                      out.size() * sizeof(float));
        });
    ThrowUnlessOk(id.status());
    auto made = std::make_unique<TorchUnit>(*this, *id, module, uses);
    made->shape_ = MakeUnitShape(spec);
    made->parameters_ = module->parameters();
    for (torch::Tensor& parameter : made->parameters_) {
      made->sizes_.push_back(parameter.sizes().vec());
      parameter.set_data(torch::empty({0}, torch::dtype(ScalarTypeOf(compute_))));
    }
    unit = made.get();
    units_.push_back(std::move(made));
  });
  if (!status.ok()) return status;
  return unit;
}

absl::StatusOr<torch::Tensor> TorchAdapter::Forward(absl::FunctionRef<torch::Tensor()> pass) {
  phase_ = Phase::kForward;
  return RunPass(pass);
}

absl::StatusOr<torch::Tensor> TorchAdapter::Evaluate(absl::FunctionRef<torch::Tensor()> pass) {
  torch::NoGradGuard no_gradients;
  phase_ = Phase::kEval;
  return RunPass(pass);
}

absl::StatusOr<torch::Tensor> TorchAdapter::RunPass(absl::FunctionRef<torch::Tensor()> pass) {
  torch::Tensor result;
  STRATA_RETURN_IF_ERROR(GuardTorch([&] { result = pass(); }));
  return result;
}

absl::Status TorchAdapter::Backward(const torch::Tensor& loss) {
  return GuardTorch([&] {
    loss.backward();
    // Units in which some parameter took no part: its gradient stays zero.
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
      if ((*unit)->in_backward_) (*unit)->LeaveBackward();
    }
  });
}

absl::Duration TorchAdapter::TakeBlocked() { return std::exchange(blocked_, absl::ZeroDuration()); }

template <typename F>
auto TorchAdapter::Timed(F call) {
  const Stopwatch stopwatch;
  auto result = call();
  blocked_ += stopwatch.Elapsed();
  return result;
}

UnitView TorchAdapter::Acquire(const TorchUnit& unit, Phase phase) {
  absl::StatusOr<UnitView> view = Timed([&] { return runtime_.Acquire(unit.id_, phase); });
  ThrowUnlessOk(view.status());
  return *view;
}

void TorchAdapter::Reduce(const TorchUnit& unit) {
  ThrowUnlessOk(Timed([&] { return runtime_.Reduce(unit.id_); }));
}

void TorchAdapter::Release(const TorchUnit& unit) {
  ThrowUnlessOk(Timed([&] { return runtime_.Release(unit.id_); }));
}

}  // namespace strata
