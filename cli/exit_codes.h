#pragma once

#include <string>

#include "absl/status/status.h"

namespace strata {

inline constexpr int kExitFailure = 1;  // what was asked for did not happen
inline constexpr int kExitBadInput = 2;

// Writes an error as one line, "strata NAME: message" (an empty NAME: "strata: message"), and
// returns the exit code for it: 2 for what the caller can change (IsCallersError), else 1.
int ReportError(const std::string& name, const absl::Status& status);

}  // namespace strata
