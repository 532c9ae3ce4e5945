#include <algorithm>
#include <iostream>

#include "runtime/runtime.h"

int main() {
  auto runtime = strata::Runtime::Start({});  // one rank
  if (!runtime.ok()) return std::cerr << runtime.status() << '\n', 1;
  const auto zeros = [](int, int64_t, std::span<float> values) {
    std::fill(values.begin(), values.end(), 0.f);
  };
  const auto unit = (*runtime)->AddUnit({"layer", {{"weight", 100}, {"bias", 7}}}, zeros);
  const absl::Status sealed = (*runtime)->Seal();
  std::cout << (*runtime)->topology().size() << " rank, " << sealed << '\n';
  return unit.ok() && sealed.ok() && (*runtime)->Shutdown().ok() ? 0 : 1;
}
