#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "runtime/engine_core.h"
#include "runtime/shard_memory.h"

namespace strata {

// One record of a fixed size from every rank to every rank, on the reduce lane, before all other
// traffic. Control loop; one at a time.
class Exchange {
 public:
  Exchange(EngineCore& core, int64_t record_bytes);

  absl::Status Allocate(ShardMemory& memory);

  // This rank's record; not while the exchange is under way.
  std::span<std::byte> own() { return {own_.base, static_cast<size_t>(record_bytes_)}; }
  // Of a rank, once ended.
  std::span<const std::byte> Of(Rank rank) const {
    return {all_.base + Index(rank) * record_bytes_, static_cast<size_t>(record_bytes_)};
  }

  // `ended` only when it went well; else the engine has failed.
  void Start(uint32_t operation, std::string what, absl::AnyInvocable<void() &&> ended);
  const CountedPlan& plan() const { return plan_; }

 private:
  EngineCore& core_;
  const int64_t record_bytes_;
  FlatBuffer own_, all_, scratch_;
  CountedPlan plan_;
};

}  // namespace strata
