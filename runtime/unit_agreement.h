#pragma once

#include "absl/functional/any_invocable.h"
#include "runtime/engine_core.h"
#include "runtime/exchange.h"

namespace strata {

// Checks, before the first step, that all ranks declared the same units: first a digest of all,
// then, where these differ, one digest per unit, so that the error names the unit. Control loop.
class UnitAgreement {
 public:
  explicit UnitAgreement(EngineCore& core);

  absl::Status Allocate(ShardMemory& memory);

  // FailedPrecondition, by core.fail, names the first unit that differs and on which rank.
  // `numbers` are two operations of the reduce lane.
  void Start(uint32_t first_number, uint32_t second_number, absl::AnyInvocable<void() &&> agreed);

 private:
  void OnDigests(uint32_t second_number);
  void OnUnits();

  EngineCore& core_;
  Exchange digests_, units_;
  absl::AnyInvocable<void() &&> agreed_;
};

}  // namespace strata
