#pragma once

#include <cstdint>

namespace strata {

// Heap blocks of 4 KiB or more that any thread of this process has asked operator new for so far.
// Always 0 under sanitizers, which have their own operator new.
int64_t BigAllocations();

}  // namespace strata
