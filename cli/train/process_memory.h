#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace strata {

// Bytes of this process, each shared page divided by the number of processes that map it. Reads
// /proc and walks all mappings: not for every step. NotFound when the kernel does not say.
absl::StatusOr<int64_t> ReadProportionalBytes();

// Bytes that a new program could have on this host. NotFound when the kernel does not say.
absl::StatusOr<int64_t> ReadAvailableBytes();

}  // namespace strata
