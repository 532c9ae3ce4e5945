#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace strata {

// A rank's place in the canonical order (outermost group, …, node, local index), from 0. The number
// a launcher gave a process may differ; it appears in rendezvous and in messages to people only.
enum class Rank : int32_t {};

// A unit, numbered in the order of AddUnit, from 0.
enum class UnitId : int32_t {};

constexpr int32_t Index(Rank rank) { return static_cast<int32_t>(rank); }
constexpr int32_t Index(UnitId unit) { return static_cast<int32_t>(unit); }

// Element type of parameters and gradients. Master parameters and moments are always f32.
enum class DType : uint8_t { kF32, kBf16 };

constexpr int64_t SizeOf(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
constexpr const char* Name(DType dtype) { return dtype == DType::kF32 ? "f32" : "bf16"; }

// Shards begin and end at multiples of this many elements of their unit (its end excepted), and the
// global norm is summed per block, so that its bits do not depend on who holds a block.
inline constexpr int64_t kBlockElements = 256;

// Runs later, once, on the loop it was given to.
using Task = absl::AnyInvocable<void() &&>;

// Reports the end of an asynchronous operation: exactly once, on the loop of the object that took
// it, never inside the call that took it. Buffers lent to the operation are the operation's until
// then.
using Done = absl::AnyInvocable<void(absl::Status) &&>;

}  // namespace strata
