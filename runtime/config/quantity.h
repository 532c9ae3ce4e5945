#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace strata {

// Bytes of "64MiB", "1.5GiB", "256KiB" or "4096". InvalidArgument unless it is a whole number of
// bytes, at least 0.
absl::StatusOr<int64_t> ParseSize(const std::string& text);

// In the largest unit in which it is a whole number: "64MiB". ParseSize is the inverse.
std::string FormatSize(int64_t bytes);

// Bits per second, a multiple of 8000, as "100mbit"; kernels/rate.h has the inverse.
std::string FormatRate(int64_t bits_per_second);

}  // namespace strata
