#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "kernels/status.h"
#include "runtime/runtime.h"
#include "runtime/strata.h"

struct strata_runtime {
  std::unique_ptr<strata::Runtime> runtime;
  strata::OptimizerOptions::Group group;
};

namespace {

using strata::StepReport;

thread_local std::string last_error;

strata_status Return(const absl::Status& status) {
  if (!status.ok()) last_error = std::string(status.message());
  return static_cast<strata_status>(status.code());
}

strata_status NullPointer(const char* what) {
  return Return(absl::InvalidArgumentError(absl::StrCat(what, " is NULL")));
}

strata::RuntimeOptions MakeOptions(const strata_options& from) {
  strata::RuntimeOptions options;
  options.layout = from.layout;
  options.compute_dtype = static_cast<strata::DType>(from.compute_dtype);
  options.gradient_dtype = static_cast<strata::DType>(from.gradient_dtype);
  options.accumulation = from.accumulation;
  options.prefetch_bytes = from.prefetch_bytes;
  options.clip = from.clip;
  options.optimizer.kind = static_cast<strata::OptimizerKind>(from.optimizer);
  options.optimizer.groups[0] = {.learning_rate = from.learning_rate,
                                 .weight_decay = from.weight_decay,
                                 .beta1 = from.beta1,
                                 .beta2 = from.beta2,
                                 .epsilon = from.epsilon,
                                 .momentum = from.momentum};
  options.timeout = absl::Seconds(from.timeout_seconds);
  if (from.trace != nullptr) options.trace = from.trace;
  return options;
}

strata_status ReturnReport(const absl::StatusOr<StepReport>& from, strata_report* to) {
  if (!from.ok()) return Return(from.status());
  if (to == nullptr) return STRATA_OK;
  *to = {.step = from->step,
         .loss = from->loss,
         .norm_before_clip = from->norm_before_clip,
         .norm_after_clip = from->norm_after_clip,
         .skipped = from->skipped ? 1 : 0,
         .sent_bytes = 0,
         .received_bytes = 0,
         .seconds = absl::ToDoubleSeconds(from->duration),
         .compute_seconds = absl::ToDoubleSeconds(from->compute)};
  for (const StepReport::PerLevel& level : from->levels) {
    to->sent_bytes += level.sent_bytes;
    to->received_bytes += level.received_bytes;
  }
  return STRATA_OK;
}

}  // namespace

extern "C" {

const char* strata_last_error(void) { return last_error.c_str(); }

void strata_options_init(strata_options* options) {
  const strata::RuntimeOptions defaults;
  const strata::OptimizerOptions::Group& group = defaults.optimizer.groups[0];
  *options = {.layout = "zero3",
              .transport = "ucx",
              .compute_dtype = STRATA_F32,
              .gradient_dtype = STRATA_F32,
              .accumulation = defaults.accumulation,
              .prefetch_bytes = defaults.prefetch_bytes,
              .clip = defaults.clip,
              .optimizer = STRATA_ADAMW,
              .learning_rate = group.learning_rate,
              .weight_decay = group.weight_decay,
              .beta1 = group.beta1,
              .beta2 = group.beta2,
              .epsilon = group.epsilon,
              .momentum = group.momentum,
              .timeout_seconds = absl::ToDoubleSeconds(defaults.timeout),
              .trace = nullptr};
}

strata_status strata_start(const strata_options* options, strata_runtime** runtime) {
  if (options == nullptr || options->layout == nullptr || options->transport == nullptr) {
    return NullPointer("options, their layout or transport");
  }
  if (runtime == nullptr) return NullPointer("runtime");
  strata::RuntimeOptions made = MakeOptions(*options);
  absl::StatusOr<strata::WorldOptions> world = strata::WorldOptionsFromEnvironment();
  if (!world.ok()) return Return(world.status());
  made.world = *std::move(world);
  made.world.transport = options->transport;
  absl::StatusOr<std::unique_ptr<strata::Runtime>> started = strata::Runtime::Start(made);
  if (!started.ok()) return Return(started.status());
  *runtime = new strata_runtime{*std::move(started), made.optimizer.groups[0]};
  return STRATA_OK;
}

int strata_rank(const strata_runtime* runtime) { return Index(runtime->runtime->self()); }

int strata_world_size(const strata_runtime* runtime) { return runtime->runtime->topology().size(); }

strata_status strata_add_unit(strata_runtime* runtime, const char* name,
                              const strata_parameter* parameters, int count,
                              strata_initializer initializer, void* context, int* unit,
                              int64_t* offsets) {
  if (name == nullptr || initializer == nullptr || unit == nullptr) {
    return NullPointer("the unit's name, initializer or result");
  }
  if (parameters == nullptr && count > 0) return NullPointer("parameters");
  strata::UnitSpec spec{.name = name};
  for (int p = 0; p < count; ++p) {
    if (parameters[p].name == nullptr) return NullPointer("a parameter's name");
    spec.parameters.push_back({.name = parameters[p].name, .elements = parameters[p].elements});
  }
  const auto init = [=](int parameter, int64_t first, std::span<float> values) {
    initializer(context, parameter, first, static_cast<int64_t>(values.size()), values.data());
  };
  const absl::StatusOr<strata::UnitId> id = runtime->runtime->AddUnit(spec, init);
  if (!id.ok()) return Return(id.status());
  *unit = Index(*id);
  const strata::UnitShape shape = MakeUnitShape(spec);
  if (offsets != nullptr) std::copy(shape.offsets.begin(), shape.offsets.end(), offsets);
  return STRATA_OK;
}

strata_status strata_seal(strata_runtime* runtime) { return Return(runtime->runtime->Seal()); }

strata_status strata_acquire(strata_runtime* runtime, int unit, strata_phase phase,
                             void** parameters, void** gradients) {
  const absl::StatusOr<strata::UnitView> view =
      runtime->runtime->Acquire(strata::UnitId{unit}, static_cast<strata::Phase>(phase));
  if (!view.ok()) return Return(view.status());
  if (parameters != nullptr) *parameters = view->parameters;
  if (gradients != nullptr) *gradients = view->gradients;
  return STRATA_OK;
}

strata_status strata_reduce(strata_runtime* runtime, int unit) {
  return Return(runtime->runtime->Reduce(strata::UnitId{unit}));
}

strata_status strata_release(strata_runtime* runtime, int unit) {
  return Return(runtime->runtime->Release(strata::UnitId{unit}));
}

strata_status strata_end_step(strata_runtime* runtime, double loss, double learning_rate,
                              strata_report* report) {
  if (learning_rate >= 0) runtime->group.learning_rate = static_cast<float>(learning_rate);
  return ReturnReport(runtime->runtime->EndStep({.loss = loss, .groups = {runtime->group}}),
                      report);
}

strata_status strata_flush(strata_runtime* runtime, strata_report* report) {
  return ReturnReport(runtime->runtime->Flush(), report);
}

strata_status strata_parameters_sha256(strata_runtime* runtime, char digest[65]) {
  const absl::StatusOr<std::string> hex = runtime->runtime->ParametersSha256();
  if (!hex.ok()) return Return(hex.status());
  std::memcpy(digest, hex->c_str(), 65);
  return STRATA_OK;
}

strata_status strata_shutdown(strata_runtime* runtime, const char* why) {
  return Return(
      runtime->runtime->Shutdown(why == nullptr ? absl::OkStatus() : absl::AbortedError(why)));
}

void strata_free(strata_runtime* runtime) { delete runtime; }

}  // extern "C"
