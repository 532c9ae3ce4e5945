#include "runtime/unit.h"

namespace strata {
namespace {

constexpr int64_t kParameterAlignment = 64;

int64_t AlignUp(int64_t value) {
  return (value + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

}  // namespace

UnitShape MakeUnitShape(const UnitSpec& spec) {
  UnitShape shape;
  for (const ParameterSpec& parameter : spec.parameters) {
    shape.offsets.push_back(shape.elements);
    shape.elements += AlignUp(parameter.elements);
  }
  return shape;
}

}  // namespace strata
