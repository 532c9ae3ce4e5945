#include <cstdio>

#include "comm/topology.h"
#include "runtime/unit.h"

int main() {
  const strata::Topology topology = strata::Topology::Uniform(3, 2);
  const strata::UnitShape shape = strata::MakeUnitShape({"layer", {{"weight", 100}, {"bias", 7}}});
  std::printf("%d ranks, %d elements\n", topology.size(), static_cast<int>(shape.elements));
  return topology.size() == 6 && shape.offsets[1] == 128 ? 0 : 1;
}
