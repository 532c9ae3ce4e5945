#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace strata {

// Bytes that the kernel counts on a network interface, since it exists.
struct InterfaceBytes {
  int64_t sent = 0;
  int64_t received = 0;
};

// NotFound when this host has no such interface.
absl::StatusOr<InterfaceBytes> ReadInterfaceBytes(const std::string& interface);

}  // namespace strata
