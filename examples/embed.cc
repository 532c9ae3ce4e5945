// The least that a program does to train sharded: one unit, one step at a time.
#include <algorithm>
#include <cstdio>

#include "kernels/status.h"
#include "runtime/runtime.h"

namespace {

absl::Status Train() {
  strata::RuntimeOptions options{.layout = "zero3"};
  STRATA_ASSIGN_OR_RETURN(options.world, strata::WorldOptionsFromEnvironment());
  options.world.transport = "tcp";
  STRATA_ASSIGN_OR_RETURN(auto runtime, strata::Runtime::Start(options));
  const auto zeros = [](int, int64_t, std::span<float> values) { std::ranges::fill(values, 0.0f); };
  STRATA_ASSIGN_OR_RETURN(auto unit, runtime->AddUnit({"layer", {{"weight", 1000}}}, zeros));
  STRATA_RETURN_IF_ERROR(runtime->Seal());
  for (int step = 0; step < 100; ++step) {
    STRATA_ASSIGN_OR_RETURN(auto view, runtime->Acquire(unit, strata::Phase::kBackward));
    const auto* weight = static_cast<const float*>(view.parameters);
    auto* gradient = static_cast<float*>(view.gradients);
    double loss = 0;  // half the square of weight - 1, summed
    for (int i = 0; i < 1000; ++i) {
      gradient[i] = weight[i] - 1;
      loss += gradient[i] * gradient[i] / 2;
    }
    STRATA_RETURN_IF_ERROR(runtime->Reduce(unit));
    STRATA_RETURN_IF_ERROR(runtime->Release(unit));
    STRATA_RETURN_IF_ERROR(runtime->EndStep({.loss = loss}).status());
    if (runtime->self() == strata::Rank{0}) std::printf("step %3d: loss %.4f\n", step + 1, loss);
  }
  return runtime->Shutdown();
}

}  // namespace

int main() {
  const absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
