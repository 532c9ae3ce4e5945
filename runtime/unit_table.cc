#include "runtime/unit_table.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr int64_t kInitialElements = 16384;  // written by one call of an Initializer

// Does SGD keep a momentum? Decided once: groups set later may not ask for what is not there.
bool HasMomentum(const OptimizerOptions& optimizer) {
  return std::any_of(optimizer.groups.begin(), optimizer.groups.end(),
                     [](const OptimizerOptions::Group& group) { return group.momentum != 0; });
}

// Calls fn(element, packed offset, elements) for the pieces of `owned`.
template <typename Fn>
void ForEachPacked(std::span<const ElementRange> owned, Fn fn) {
  int64_t packed = 0;
  for (const ElementRange& range : owned) {
    fn(range.begin, packed, range.size());
    packed += range.size();
  }
}

// The first element after `element`, at most `end`, at which `ranges` begins or ends.
int64_t NextBoundary(std::span<const ElementRange> ranges, int64_t element, int64_t end) {
  for (const ElementRange& range : ranges) {
    if (range.begin > element) return std::min(end, range.begin);
    if (range.end > element) return std::min(end, range.end);
  }
  return end;
}

// f32 values of elements [first, first + values.size()) of the unit: zero in the gaps.
void FillElements(const UnitSpec& spec, const UnitShape& shape, int64_t first,
                  std::span<float> values, const Initializer& init) {
  std::fill(values.begin(), values.end(), 0.0f);
  const int64_t end = first + static_cast<int64_t>(values.size());
  for (size_t p = 0; p < spec.parameters.size(); ++p) {
    const int64_t begin = std::max(first, shape.offsets[p]);
    const int64_t stop = std::min(end, shape.offsets[p] + spec.parameters[p].elements);
    if (begin >= stop) continue;
    init(static_cast<int>(p), begin - shape.offsets[p],
         values.subspan(static_cast<size_t>(begin - first), static_cast<size_t>(stop - begin)));
  }
}

}  // namespace

std::vector<OptimizerRange> MakeOptimizerRanges(const UnitSpec& spec, const UnitShape& shape,
                                                std::span<const ElementRange> owned) {
  std::vector<OptimizerRange> ranges;
  const size_t count = spec.parameters.size();
  ForEachPacked(owned, [&](int64_t first, int64_t packed, int64_t elements) {
    for (size_t p = 0; p < count; ++p) {
      const int64_t begin = std::max(first, shape.offsets[p]);
      const int64_t next = p + 1 < count ? shape.offsets[p + 1] : shape.elements;
      const int64_t end = std::min(first + elements, next);
      if (begin >= end) continue;
      const OptimizerRange range{packed + begin - first, end - begin, spec.parameters[p].group};
      if (!ranges.empty() && ranges.back().group == range.group &&
          ranges.back().begin + ranges.back().elements == range.begin) {
        ranges.back().elements += range.elements;
      } else {
        ranges.push_back(range);
      }
    }
  });
  return ranges;
}

UnitTable::UnitTable(const Topology& topology, Rank self, const EngineOptions& options,
                     ShardMemory& memory)
    : topology_(topology), self_(self), options_(options), memory_(memory) {}

absl::Status UnitTable::Check(const UnitSpec& spec) {
  if (spec.name.empty() || unit_names_.contains(spec.name)) {
    return absl::InvalidArgumentError(absl::StrCat("unit \"", spec.name, "\": the name is ",
                                                   spec.name.empty() ? "empty" : "used already"));
  }
  const int groups = static_cast<int>(options_.optimizer.groups.size());
  std::set<std::string> own;
  for (const ParameterSpec& parameter : spec.parameters) {
    const std::string what =
        absl::StrCat("unit \"", spec.name, "\": parameter \"", parameter.name, "\": ");
    if (parameter_names_.contains(parameter.name) || !own.insert(parameter.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(what, "the name is used already"));
    }
    if (parameter.elements < 0) {
      return absl::InvalidArgumentError(absl::StrCat(what, parameter.elements, " elements"));
    }
    if (parameter.group < 0 || parameter.group >= groups) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "group ", parameter.group, " does not exist: there are ", groups));
    }
  }
  return absl::OkStatus();
}

absl::Status UnitTable::Allocate(Unit& unit, const UnitShards& shards) {
  const auto allocate = [&](FlatBuffer& buffer, int64_t bytes,
                            absl::string_view what) -> absl::Status {
    const std::string context = absl::StrCat("unit \"", unit.spec.name, "\": ", what);
    STRATA_ASSIGN_OR_RETURN(buffer.base, memory_.Allocate(bytes, context));
    buffer.bytes = bytes;
    return absl::OkStatus();
  };
  const int64_t compute_size = SizeOf(options_.compute_dtype);
  const int64_t master_bytes = unit.optimizer_elements * 4;
  const bool same_shards = options_.layout.parameters == options_.layout.optimizer;
  const bool same_type = options_.compute_dtype == DType::kF32;

  STRATA_RETURN_IF_ERROR(allocate(unit.master, master_bytes, "master parameters"));
  if (same_shards && same_type) {
    unit.parameters = unit.master;
  } else {
    STRATA_RETURN_IF_ERROR(allocate(
        unit.parameters, shards.parameters.OwnedElements(self_) * compute_size, "parameters"));
  }
  if (same_shards) {
    unit.published = unit.parameters;
  } else if (same_type) {
    unit.published = unit.master;
  } else {
    STRATA_RETURN_IF_ERROR(
        allocate(unit.published, unit.optimizer_elements * compute_size, "parameters to publish"));
  }
  STRATA_RETURN_IF_ERROR(
      allocate(unit.accumulator, unit.gradient_elements * 4, "gradient accumulator"));
  const bool adam = options_.optimizer.kind == OptimizerKind::kAdamW;
  if (adam || HasMomentum(options_.optimizer)) {
    STRATA_RETURN_IF_ERROR(allocate(unit.moments[0], master_bytes, "first moment"));
  }
  if (adam) STRATA_RETURN_IF_ERROR(allocate(unit.moments[1], master_bytes, "second moment"));
  return absl::OkStatus();
}

void UnitTable::Initialise(Unit& unit, const UnitShards& shards, const Initializer& init) {
  const auto buffer = std::make_unique<std::array<float, kInitialElements>>();
  const DType dtype = options_.compute_dtype;
  const std::span<const ElementRange> kept = shards.optimizer.Owned(self_);
  // The parameters' shard contains the optimizer's: one pass writes both.
  ForEachPacked(shards.parameters.Owned(self_), [&](int64_t first, int64_t packed, int64_t size) {
    for (int64_t at = first; at < first + size;) {
      const int64_t end = NextBoundary(kept, at, std::min(first + size, at + kInitialElements));
      const std::span<float> values(buffer->data(), static_cast<size_t>(end - at));
      FillElements(unit.spec, unit.shape, at, values, init);
      Convert({.dst_dtype = dtype,
               .dst = unit.parameters.base + (packed + at - first) * SizeOf(dtype),
               .src_dtype = DType::kF32,
               .src = values.data(),
               .elements = end - at});
      const int64_t master_offset = shards.optimizer.PackedOffset(self_, at);
      if (master_offset >= 0) {
        std::copy(values.begin(), values.end(), unit.master.floats() + master_offset);
      }
      at = end;
    }
  });
  // A step that does not update the unit publishes these.
  if (unit.published.base != unit.master.base && unit.published.base != unit.parameters.base) {
    Convert({.dst_dtype = dtype,
             .dst = unit.published.base,
             .src_dtype = DType::kF32,
             .src = unit.master.base,
             .elements = unit.optimizer_elements});
  }
}

absl::StatusOr<UnitId> UnitTable::Add(const UnitSpec& spec, const Initializer& init) {
  STRATA_RETURN_IF_ERROR(Check(spec));
  Unit unit{.id = UnitId{static_cast<int32_t>(units_.size())},
            .spec = spec,
            .shape = MakeUnitShape(spec)};
  STRATA_ASSIGN_OR_RETURN(const UnitShards shards,
                          MakeUnitShards(topology_, options_.layout, unit.shape.elements));
  unit.optimizer_elements = shards.optimizer.OwnedElements(self_);
  unit.gradient_elements = shards.gradients.OwnedElements(self_);
  unit.optimizer_ranges = MakeOptimizerRanges(spec, unit.shape, shards.optimizer.Owned(self_));
  for (const ElementRange& range : shards.reduced.Owned(self_)) {
    const int64_t begin = shards.optimizer.PackedOffset(self_, range.begin);
    unit.counted.push_back({begin, begin + range.size()});
  }
  STRATA_RETURN_IF_ERROR(Allocate(unit, shards));
  Initialise(unit, shards, init);
  unit_names_.insert(spec.name);
  for (const ParameterSpec& parameter : spec.parameters) parameter_names_.insert(parameter.name);
  units_.push_back(std::move(unit));
  return units_.back().id;
}

}  // namespace strata
