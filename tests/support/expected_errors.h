#pragma once

#include <cstdint>

namespace strata {

// Lets the running test log up to `lines` more lines of severity error without failing.
void ExpectErrorLines(int64_t lines);

}  // namespace strata
