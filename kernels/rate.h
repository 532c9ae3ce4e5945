#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace strata {

// Bits per second of "100mbit", "1gbit", "2.5gbit" or "64kbit". InvalidArgument names what is
// wrong.
absl::StatusOr<int64_t> ParseRate(const std::string& text);

}  // namespace strata
