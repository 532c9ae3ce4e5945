#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace strata {

enum class Severity { kDebug, kInfo, kWarning, kError };

// Writes one line to stderr: "severity strata[label]: message". Any thread. The level comes from
// STRATA_LOG (debug, info, warning, error; default warning). Tests fail on an unexpected error
// line.
void Log(Severity severity, absl::string_view message);

// What stands in brackets on each line, for example "rank 3 host-b".
void SetLogLabel(std::string label);

// Lines of severity kError written so far by this process.
int64_t ErrorLines();

}  // namespace strata
