#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "comm/awaited.h"

namespace strata {

// From now on SIGINT and SIGTERM are only noted; a second one ends the process.
void CatchInterrupts();

bool Interrupted();

// What `value` is set to; Cancelled when the process is interrupted before. Blocks.
template <typename T>
absl::StatusOr<T> WaitUnlessInterrupted(Awaited<T>& value) {
  constexpr absl::Duration kLook = absl::Milliseconds(50);
  while (!Interrupted()) {
    if (std::optional<T> set = value.WaitFor(kLook)) return *std::move(set);
  }
  return absl::CancelledError("interrupted");
}

}  // namespace strata
