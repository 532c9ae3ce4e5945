#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/topology.h"

namespace strata {

// Levels of one topology, as a set. Level 0 is the innermost.
class LevelSet {
 public:
  constexpr LevelSet() = default;
  constexpr explicit LevelSet(uint32_t bits) : bits_(bits) {}
  static constexpr LevelSet All(int level_count) { return LevelSet((1u << level_count) - 1); }

  constexpr bool Has(int level) const { return (bits_ >> level) & 1u; }
  constexpr LevelSet With(int level) const { return LevelSet(bits_ | (1u << level)); }
  constexpr bool Within(LevelSet other) const { return (bits_ & ~other.bits_) == 0; }
  constexpr LevelSet Without(LevelSet other) const { return LevelSet(bits_ & ~other.bits_); }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const LevelSet&) const = default;

 private:
  uint32_t bits_ = 0;
};

// Over which levels each state is sharded; it is replicated over the others.
struct Layout {
  std::string name;  // the preset's name, or "custom"
  LevelSet parameters;
  LevelSet gradients;
  LevelSet optimizer;
};

// The presets that ParseLayout knows, in the order of docs/layouts.md.
std::vector<std::string> LayoutPresets();

// A preset by name. InvalidArgument names the nearest preset, or the level that the topology lacks.
absl::StatusOr<Layout> ParseLayout(absl::string_view preset, const Topology& topology);

// A layout from level names. InvalidArgument names the level that the topology lacks, or the rule
// that the layout breaks (see CheckLayout).
absl::StatusOr<Layout> MakeLayout(const std::vector<std::string>& parameters,
                                  const std::vector<std::string>& gradients,
                                  const std::vector<std::string>& optimizer,
                                  const Topology& topology);

// Legal iff levels(G) ⊆ levels(O) and levels(P) ⊆ levels(O); the message names the broken rule, the
// state and the level, and what to change.
absl::Status CheckLayout(const Layout& layout, const Topology& topology);

// The order in which a unit is cut, for all states of one layout: levels of P, then the rest of
// G's, then the rest of O's, then those that none is sharded over; innermost first within each. The
// optimizer's shard then lies inside the parameters' shard, and publish moves no byte that is
// already there.
std::vector<int> CutOrder(const Layout& layout, int level_count);

}  // namespace strata
