#pragma once

#include <cstdint>

namespace strata {

// Blocks taken from the heap so far by operator new, which count_allocations.cc replaces in the
// binary that it is part of.
int64_t Allocations();

}  // namespace strata
