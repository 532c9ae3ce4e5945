#include <algorithm>
#include <utility>

#include "absl/base/config.h"
#include "kernels/status.h"
#include "runtime/arena.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace strata {
namespace {

class FlatArena final : public UnitArena {
 public:
  FlatArena(std::byte* memory, const Options& options);
  ~FlatArena() override {
    for (SlotState& slot : slots_) ASAN_UNPOISON_MEMORY_REGION(slot.address, slot.bytes);
  }

  bool TryReserve(int slot) override;
  void Free(int slot) override;
  void Map(int slot) override { STRATA_CHECK(slots_[slot].reserved); }
  void Unmap(int) override {}
  std::byte* Address(int slot) const override { return slots_[slot].address; }
  PlanBuffer Pages(int slot) const override {
    return {.pages = slots_[slot].memory, .page_bytes = page_bytes_};
  }
  int64_t used_bytes() const override { return used_pages_ * page_bytes_; }

 private:
  struct SlotState {
    int section = 0;
    std::byte* address = nullptr;
    int64_t bytes = 0;
    std::vector<std::byte*> memory;  // per page
    bool reserved = false;
  };

  const int64_t page_bytes_;
  std::vector<int64_t> free_pages_;  // per section
  std::vector<SlotState> slots_;
  int64_t used_pages_ = 0;
};

FlatArena::FlatArena(std::byte* memory, const Options& options)
    : page_bytes_(options.page_bytes), free_pages_(options.section_pages) {
  for (const Slot& slot : options.slots) {
    const int64_t pages = PagesOf(slot.bytes, page_bytes_);
    SlotState state{.section = slot.section, .address = memory, .bytes = pages * page_bytes_};
    for (int64_t page = 0; page < pages; ++page) {
      state.memory.push_back(memory + page * page_bytes_);
    }
    memory += state.bytes;
    ASAN_POISON_MEMORY_REGION(state.address, state.bytes);
    slots_.push_back(std::move(state));
  }
}

bool FlatArena::TryReserve(int slot) {
  SlotState& state = slots_[slot];
  STRATA_CHECK(!state.reserved);
  const int64_t wanted = static_cast<int64_t>(state.memory.size());
  if (free_pages_[state.section] < wanted) return false;
  free_pages_[state.section] -= wanted;
  used_pages_ += wanted;
  state.reserved = true;
  ASAN_UNPOISON_MEMORY_REGION(state.address, state.bytes);
  return true;
}

void FlatArena::Free(int slot) {
  SlotState& state = slots_[slot];
  STRATA_CHECK(state.reserved);
  const int64_t pages = static_cast<int64_t>(state.memory.size());
  free_pages_[state.section] += pages;
  used_pages_ -= pages;
  state.reserved = false;
  ASAN_POISON_MEMORY_REGION(state.address, state.bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnitArena>> MakeFlatArena(SharedMemory& memory,
                                                         const UnitArena::Options& options) {
  int64_t bytes = 0;
  for (const UnitArena::Slot& slot : options.slots) {
    bytes += PagesOf(slot.bytes, options.page_bytes) * options.page_bytes;
  }
  absl::StatusOr<SharedSegment> segment = memory.Allocate(std::max(bytes, options.page_bytes));
  if (!segment.ok()) return Annotate(segment.status(), "unit memory");
  return std::make_unique<FlatArena>(segment->bytes.data(), options);
}

absl::StatusOr<std::unique_ptr<UnitArena>> MakeArena(SharedMemory& memory,
                                                     const UnitArena::Options& options) {
#ifdef STRATA_SANITIZED
  return MakeFlatArena(memory, options);
#else
  return MakeAliasArena(memory, options);
#endif
}

int64_t ChoosePageBytes(std::span<const int64_t> slot_bytes) {
  constexpr int64_t kLargest = 2 << 20, kLeast = 64 << 10;
  int64_t total = 0;
  for (int64_t bytes : slot_bytes) total += bytes;
  for (int64_t page = kLargest; page > kLeast; page /= 2) {
    int64_t rounded = 0;
    for (int64_t bytes : slot_bytes) rounded += PagesOf(bytes, page) * page;
    if (rounded - total <= total / 16) return page;
  }
  return kLeast;
}

}  // namespace strata
