#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata {

// Runs `ip` or `tc` with `input` as its standard input and waits. The error carries what the tool
// wrote. Searches /usr/sbin and /sbin besides PATH, which may lack them.
absl::Status RunTool(const std::vector<std::string>& command, const std::string& input);

}  // namespace strata
