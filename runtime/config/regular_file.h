#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace strata {

// The bytes of a regular file. What is none, a pipe or a device, is refused at once: reading it
// could wait or go on for ever. InvalidArgument says what is wrong, without the path.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, int64_t most_bytes);

}  // namespace strata
