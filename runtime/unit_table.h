#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/plan_runner.h"
#include "comm/shard_layout.h"
#include "comm/topology.h"
#include "runtime/engine_options.h"
#include "runtime/shard_memory.h"
#include "runtime/unit.h"

namespace strata {

// Elements of the packed optimizer shard that share a parameter group.
struct OptimizerRange {
  int64_t begin = 0;
  int64_t elements = 0;
  int group = 0;
};

// Memory of one fixed address: what a plan needs of it without another allocation.
struct FlatBuffer {
  std::byte* base = nullptr;
  int64_t bytes = 0;

  float* floats() const { return reinterpret_cast<float*>(base); }
  // Borrows `base`: this object stays where it is while the view is in use.
  PlanBuffer View() const { return {.pages = {&base, 1}, .page_bytes = bytes > 0 ? bytes : 1}; }
};

// One unit and what this rank keeps of it for good. Shards are packed.
struct Unit {
  UnitId id{};
  UnitSpec spec;
  UnitShape shape;
  int64_t optimizer_elements = 0;
  int64_t gradient_elements = 0;

  // Compute dtype. The whole unit, at the address that the application sees, when parameters are
  // replicated everywhere. One with `master` when both are f32 shards of the same layout.
  FlatBuffer parameters;
  FlatBuffer master;     // f32, optimizer's shard
  FlatBuffer published;  // compute dtype, optimizer's shard; one with `master` when f32, or with
                         // `parameters` when these have the same shards
  FlatBuffer
      accumulator;        // f32, gradients' shard; its front is the step's gradient at the boundary
  FlatBuffer moments[2];  // f32, optimizer's shard; AdamW has both, SGD with momentum the first

  std::vector<OptimizerRange> optimizer_ranges;
  std::vector<ElementRange> counted;  // of the optimizer's shard: what this rank adds to the norm
};

// The units of one rank, as they are declared: checks specs, cuts shards, initialises them one unit
// at a time. One thread, before the Engine takes it over.
class UnitTable {
 public:
  // All borrowed.
  UnitTable(const Topology& topology, Rank self, const EngineOptions& options, ShardMemory& memory);

  // InvalidArgument on a name used twice, a negative size, a group that does not exist.
  absl::StatusOr<UnitId> Add(const UnitSpec& spec, const Initializer& init);

  std::vector<Unit>& units() { return units_; }
  const std::vector<Unit>& units() const { return units_; }

 private:
  absl::Status Check(const UnitSpec& spec);
  absl::Status Allocate(Unit& unit, const UnitShards& shards);
  void Initialise(Unit& unit, const UnitShards& shards, const Initializer& init);

  const Topology& topology_;
  const Rank self_;
  const EngineOptions& options_;
  ShardMemory& memory_;
  std::vector<Unit> units_;
  std::set<std::string> unit_names_, parameter_names_;
};

// Which groups the elements of the packed `owned` belong to; gaps go with the parameter before.
std::vector<OptimizerRange> MakeOptimizerRanges(const UnitSpec& spec, const UnitShape& shape,
                                                std::span<const ElementRange> owned);

}  // namespace strata
