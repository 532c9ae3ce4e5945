#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/types.h"

namespace strata {

struct ParameterSpec {
  std::string name;  // unique in the Runtime
  int64_t elements = 0;
  int group = 0;  // of OptimizerOptions::groups
};

// Parameters that are gathered, used and released together, usually one layer.
struct UnitSpec {
  std::string name;  // unique in the Runtime
  std::vector<ParameterSpec> parameters;
};

// Writes the initial f32 values of elements [first, first + values.size()) of spec.parameters[p].
using Initializer = absl::FunctionRef<void(int parameter, int64_t first, std::span<float> values)>;

// Where the parameters of a spec lie in their unit, in elements. Each parameter begins at a
// multiple of 64 elements, so that its memory is aligned for vectors; gaps are zero and count as
// elements.
struct UnitShape {
  std::vector<int64_t> offsets;  // per parameter
  int64_t elements = 0;          // of the unit, gaps included
};

UnitShape MakeUnitShape(const UnitSpec& spec);

// A unit while it is acquired. Addresses are fixed for the unit's whole life. `gradients` is null
// unless acquired in Phase::kBackward. Element e of parameter p is at offsets[p] + e of either.
struct UnitView {
  void* parameters = nullptr;  // compute dtype
  void* gradients = nullptr;   // compute dtype
};

}  // namespace strata
