#include "runtime/engine_options.h"

#include "kernels/status.h"

namespace strata {
namespace {

constexpr int64_t kLeastChunkBytes = 4096;

absl::Status CheckGroup(const OptimizerOptions::Group& group, size_t index) {
  const auto in_unit = [](float value) { return value >= 0 && value < 1; };
  if (!in_unit(group.beta1) || !in_unit(group.beta2) || !in_unit(group.momentum)) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer group ", index, ": beta1 ", group.beta1, ", beta2 ", group.beta2,
                     " and momentum ", group.momentum, " must be at least 0 and less than 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEngineOptions(const EngineOptions& options) {
  if (options.accumulation < 1 || options.accumulation > 0x7fff) {
    return absl::InvalidArgumentError(absl::StrCat("accumulation is ", options.accumulation,
                                                   ": it must be from 1 to 32767 micro-steps"));
  }
  const int64_t chunk = options.chunk_bytes;
  if (chunk < kLeastChunkBytes || (chunk & (chunk - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk_bytes is ", chunk, ": it must be a power of two of at least ", kLeastChunkBytes));
  }
  if (!(options.clip >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("clip is ", options.clip, ": it must be a norm, or 0 for no clipping"));
  }
  if (options.optimizer.groups.empty()) {
    return absl::InvalidArgumentError(
        "the optimizer has no parameter group: it needs at least one");
  }
  for (size_t i = 0; i < options.optimizer.groups.size(); ++i) {
    STRATA_RETURN_IF_ERROR(CheckGroup(options.optimizer.groups[i], i));
  }
  return absl::OkStatus();
}

}  // namespace strata
