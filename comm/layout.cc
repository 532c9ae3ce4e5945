#include "comm/layout.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/status.h"

namespace strata {
namespace {

// The tiers that presets speak of. A topology may have levels inside the node or between node and
// cluster: "within" is the node and everything inside it, "between" everything outside it.
enum class Tier : uint8_t { kPair, kWithin, kBetween };

struct Preset {
  const char* name;
  std::vector<Tier> parameters, gradients, optimizer;
};

const std::vector<Preset>& Presets() {
  constexpr Tier pair = Tier::kPair, node = Tier::kWithin, cluster = Tier::kBetween;
  static const auto& presets = *new std::vector<Preset>{
      {"ddp", {}, {}, {}},
      {"zero1", {}, {}, {node, cluster}},
      {"zero2", {}, {node, cluster}, {node, cluster}},
      {"zero3", {node, cluster}, {node, cluster}, {node, cluster}},
      {"hsdp", {node}, {node}, {node}},
      {"iig", {node}, {node}, {node, cluster}},
      {"igg", {node}, {node, cluster}, {node, cluster}},
      {"nig", {}, {node}, {node, cluster}},
      {"across", {cluster}, {node}, {node, cluster}},
      {"topo", {pair}, {node}, {node, cluster}},
  };
  return presets;
}

std::string LevelNames(const Topology& topology) {
  return absl::StrJoin(topology.levels(), ", ", [](std::string* out, const Level& level) {
    absl::StrAppend(out, level.name);
  });
}

absl::StatusOr<int> RequireLevel(absl::string_view name, const Topology& topology) {
  const int level = topology.FindLevel(name);
  if (level < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the topology has no level \"", name, "\"; it has: ", LevelNames(topology)));
  }
  return level;
}

absl::StatusOr<LevelSet> LevelsOf(const std::vector<Tier>& tiers, const Topology& topology) {
  LevelSet set;
  for (Tier tier : tiers) {
    if (tier == Tier::kPair) {
      STRATA_ASSIGN_OR_RETURN(const int pair, RequireLevel("pair", topology));
      set = set.With(pair);
      continue;
    }
    STRATA_ASSIGN_OR_RETURN(const int node, RequireLevel("node", topology));
    const bool within = tier == Tier::kWithin;
    if (!within && node + 1 == topology.level_count())
      return RequireLevel("cluster", topology).status();
    const int end = within ? node + 1 : topology.level_count();
    for (int level = within ? 0 : node + 1; level < end; ++level) set = set.With(level);
  }
  return set;
}

absl::StatusOr<LevelSet> LevelsOf(const std::vector<std::string>& names, absl::string_view state,
                                  const Topology& topology) {
  LevelSet set;
  for (const std::string& name : names) {
    auto level = RequireLevel(name, topology);
    if (!level.ok()) return Annotate(level.status(), absl::StrCat("layout of ", state));
    set = set.With(*level);
  }
  return set;
}

// Edit distance: how many characters to add, drop or change.
int Distance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i));
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

absl::Status UnknownPreset(absl::string_view name) {
  const auto nearest =
      std::min_element(Presets().begin(), Presets().end(), [&](const Preset& a, const Preset& b) {
        return Distance(name, a.name) < Distance(name, b.name);
      });
  return absl::InvalidArgumentError(
      absl::StrCat("there is no layout \"", name, "\"; did you mean \"", nearest->name,
                   "\"? Layouts: ", absl::StrJoin(LayoutPresets(), ", ")));
}

absl::Status CheckWithinOptimizer(LevelSet set, absl::string_view state, LevelSet optimizer,
                                  const Topology& topology) {
  for (int level = 0; level < topology.level_count(); ++level) {
    if (!set.Has(level) || optimizer.Has(level)) continue;
    const std::string& name = topology.levels()[level].name;
    return absl::InvalidArgumentError(absl::StrCat(
        state, " are sharded over level \"", name,
        "\" but optimizer state is not; optimizer state must be sharded over every level that ",
        state, " are: add \"", name, "\" to optimizer or remove it from ", state));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> LayoutPresets() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.emplace_back(preset.name);
  return names;
}

absl::StatusOr<Layout> ParseLayout(absl::string_view name, const Topology& topology) {
  for (const Preset& preset : Presets()) {
    if (preset.name != name) continue;
    Layout layout{preset.name, {}, {}, {}};
    const std::array rows = {std::pair(&preset.parameters, &layout.parameters),
                             std::pair(&preset.gradients, &layout.gradients),
                             std::pair(&preset.optimizer, &layout.optimizer)};
    for (const auto& [tiers, set] : rows) {
      auto levels = LevelsOf(*tiers, topology);
      if (!levels.ok()) return Annotate(levels.status(), absl::StrCat("layout \"", name, "\""));
      *set = *levels;
    }
    return layout;
  }
  return UnknownPreset(name);
}

absl::StatusOr<Layout> MakeLayout(const std::vector<std::string>& parameters,
                                  const std::vector<std::string>& gradients,
                                  const std::vector<std::string>& optimizer,
                                  const Topology& topology) {
  Layout layout{"custom", {}, {}, {}};
  STRATA_ASSIGN_OR_RETURN(layout.parameters, LevelsOf(parameters, "parameters", topology));
  STRATA_ASSIGN_OR_RETURN(layout.gradients, LevelsOf(gradients, "gradients", topology));
  STRATA_ASSIGN_OR_RETURN(layout.optimizer, LevelsOf(optimizer, "optimizer", topology));
  STRATA_RETURN_IF_ERROR(CheckLayout(layout, topology));
  return layout;
}

absl::Status CheckLayout(const Layout& layout, const Topology& topology) {
  const LevelSet all = LevelSet::All(topology.level_count());
  for (LevelSet set : {layout.parameters, layout.gradients, layout.optimizer}) {
    if (!set.Within(all)) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout \"", layout.name,
                       "\" names a level that the topology lacks; it has: ", LevelNames(topology)));
    }
  }
  STRATA_RETURN_IF_ERROR(
      CheckWithinOptimizer(layout.parameters, "parameters", layout.optimizer, topology));
  return CheckWithinOptimizer(layout.gradients, "gradients", layout.optimizer, topology);
}

std::vector<int> CutOrder(const Layout& layout, int level_count) {
  std::vector<int> order;
  LevelSet cut;
  for (LevelSet set :
       {layout.parameters, layout.gradients, layout.optimizer, LevelSet::All(level_count)}) {
    for (int level = 0; level < level_count; ++level) {
      if (!set.Has(level) || cut.Has(level)) continue;
      order.push_back(level);
      cut = cut.With(level);
    }
  }
  return order;
}

}  // namespace strata
