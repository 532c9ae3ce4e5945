#include "tests/proc/big_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace strata {
namespace {

std::atomic<int64_t> big_allocations{0};

}  // namespace

int64_t BigAllocations() { return big_allocations.load(); }

}  // namespace strata

#ifndef STRATA_SANITIZED
void* operator new(std::size_t bytes) {
  if (bytes >= 4096) ++strata::big_allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
