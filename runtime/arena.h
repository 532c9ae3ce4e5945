#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/plan_runner.h"
#include "comm/shared_memory.h"

namespace strata {

// The fixed pool of unit memory and the fixed addresses at which applications see it. A slot is one
// unit's parameters or gradients: an address range for its whole life, and pages of the pool for
// each of its copies that is reserved. Sections divide the pool, so that gathers never take what
// gradients need.
// [Note: Two views] Lanes use the pool's own mapping, which never changes: it is registered with
// transports once, and a transfer may begin before the application's view is there. The view shows
// one copy at a time and is inaccessible after its release, so that a stray access is a fault where
// it happens. One thread.
class UnitArena {
 public:
  struct Slot {
    int64_t bytes = 0;
    int section = 0;
    int copies = 1;  // at most so many are reserved at once
  };
  struct Options {
    int64_t page_bytes = 0;
    std::vector<int64_t> section_pages;
    std::vector<Slot> slots;
  };

  virtual ~UnitArena() = default;

  // Takes pages for one more copy and says which copy that is, from 0; nothing if the slot has no
  // other copy or its section too few pages.
  virtual std::optional<int> TryReserve(int slot) = 0;
  // Gives them back. What is in them may be read by no one afterwards.
  virtual void Free(int slot, int copy) = 0;
  // Lets the application see a reserved copy, whose bytes may still be on their way, and no longer.
  // May take a millisecond per 10 MiB.
  virtual void Map(int slot, int copy) = 0;
  virtual void Unmap(int slot) = 0;
  // Lanes have written all of a copy that the application is to see.
  virtual void Arrived(int slot, int copy) = 0;

  virtual std::byte* Address(int slot) const = 0;
  // Of a reserved copy, for lanes; valid until Free.
  virtual PlanBuffer Pages(int slot, int copy) const = 0;
  virtual int64_t used_bytes() const = 0;
};

// One memfd whose pages are mapped twice.
absl::StatusOr<std::unique_ptr<UnitArena>> MakeAliasArena(SharedMemory& memory,
                                                          const UnitArena::Options& options);

// Memory of its own for each copy, poisoned while it is not reserved, and the same accounting: for
// sanitizers, which do not follow memory through two addresses. Copies but the first are copied to
// the view.
absl::StatusOr<std::unique_ptr<UnitArena>> MakeFlatArena(SharedMemory& memory,
                                                         const UnitArena::Options& options);

// The one that suits this build.
absl::StatusOr<std::unique_ptr<UnitArena>> MakeArena(SharedMemory& memory,
                                                     const UnitArena::Options& options);

// The largest power of two from 64 KiB to 2 MiB at which rounding slots up to whole pages wastes at
// most a sixteenth of them; 64 KiB when there is none.
int64_t ChoosePageBytes(std::span<const int64_t> slot_bytes);

inline int64_t PagesOf(int64_t bytes, int64_t page_bytes) {
  return (bytes + page_bytes - 1) / page_bytes;
}

}  // namespace strata
