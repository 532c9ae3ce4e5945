#include <algorithm>
#include <cstring>
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

// Bytes of memory that a slot takes: its copies, and a view of its own if there is more than one.
int64_t MemoryOf(const UnitArena::Slot& slot, int64_t page_bytes) {
  return PagesOf(slot.bytes, page_bytes) * page_bytes *
         (slot.copies > 1 ? slot.copies + 1 : slot.copies);
}

class FlatArena final : public UnitArena {
 public:
  FlatArena(std::byte* memory, const Options& options);
  ~FlatArena() override { ASAN_UNPOISON_MEMORY_REGION(memory_, end_ - memory_); }

  std::optional<int> TryReserve(int slot) override;
  void Free(int slot, int copy) override;
  void Map(int slot, int copy) override;
  void Unmap(int slot) override;
  void Arrived(int slot, int copy) override;
  std::byte* Address(int slot) const override { return slots_[slot].view; }
  PlanBuffer Pages(int slot, int copy) const override {
    return {.pages = slots_[slot].copies[copy].memory, .page_bytes = page_bytes_};
  }
  int64_t used_bytes() const override { return used_pages_ * page_bytes_; }

 private:
  struct Copy {
    std::byte* base = nullptr;
    std::vector<std::byte*> memory;  // per page
    bool reserved = false;
    bool arrived = false;
  };
  struct SlotState {
    int section = 0;
    int64_t bytes = 0;
    std::byte* view = nullptr;  // an only copy's memory
    std::vector<Copy> copies;
    int mapped = -1;
  };

  void Show(SlotState& slot);

  std::byte* const memory_;
  std::byte* end_;
  const int64_t page_bytes_;
  std::vector<int64_t> free_pages_;  // per section
  std::vector<SlotState> slots_;
  int64_t used_pages_ = 0;
};

FlatArena::FlatArena(std::byte* memory, const Options& options)
    : memory_(memory),
      end_(memory),
      page_bytes_(options.page_bytes),
      free_pages_(options.section_pages) {
  for (const Slot& slot : options.slots) {
    const int64_t pages = PagesOf(slot.bytes, page_bytes_);
    SlotState state{.section = slot.section, .bytes = pages * page_bytes_, .view = end_};
    if (slot.copies > 1) end_ += state.bytes;
    for (int i = 0; i < slot.copies; ++i) {
      Copy copy{.base = end_};
      for (int64_t page = 0; page < pages; ++page) copy.memory.push_back(end_ + page * page_bytes_);
      end_ += state.bytes;
      state.copies.push_back(std::move(copy));
    }
    slots_.push_back(std::move(state));
  }
  ASAN_POISON_MEMORY_REGION(memory_, end_ - memory_);
}

std::optional<int> FlatArena::TryReserve(int slot) {
  SlotState& state = slots_[slot];
  const auto copy = std::find_if(state.copies.begin(), state.copies.end(),
                                 [](const Copy& c) { return !c.reserved; });
  const int64_t wanted = state.bytes / page_bytes_;
  if (copy == state.copies.end() || free_pages_[state.section] < wanted) return std::nullopt;
  free_pages_[state.section] -= wanted;
  used_pages_ += wanted;
  copy->reserved = true;
  copy->arrived = false;
  ASAN_UNPOISON_MEMORY_REGION(copy->base, state.bytes);
  return static_cast<int>(copy - state.copies.begin());
}

void FlatArena::Free(int slot, int copy) {
  SlotState& state = slots_[slot];
  STRATA_CHECK(state.copies[copy].reserved);
  free_pages_[state.section] += state.bytes / page_bytes_;
  used_pages_ -= state.bytes / page_bytes_;
  state.copies[copy].reserved = false;
  ASAN_POISON_MEMORY_REGION(state.copies[copy].base, state.bytes);
}

void FlatArena::Map(int slot, int copy) {
  SlotState& state = slots_[slot];
  STRATA_CHECK(state.copies[copy].reserved);
  state.mapped = copy;
  ASAN_UNPOISON_MEMORY_REGION(state.view, state.bytes);
  Show(state);
}

void FlatArena::Unmap(int slot) {
  SlotState& state = slots_[slot];
  state.mapped = -1;
  if (state.copies.size() > 1) ASAN_POISON_MEMORY_REGION(state.view, state.bytes);
}

void FlatArena::Arrived(int slot, int copy) {
  SlotState& state = slots_[slot];
  state.copies[copy].arrived = true;
  // Another copy's view may be in use.
  if (state.mapped == copy) Show(state);
}

void FlatArena::Show(SlotState& slot) {
  if (slot.copies.size() == 1 || slot.mapped < 0) return;
  const Copy& copy = slot.copies[slot.mapped];
  if (copy.arrived && slot.bytes > 0) std::memcpy(slot.view, copy.base, slot.bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnitArena>> MakeFlatArena(SharedMemory& memory,
                                                         const UnitArena::Options& options) {
  int64_t bytes = 0;
  for (const UnitArena::Slot& slot : options.slots) bytes += MemoryOf(slot, options.page_bytes);
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
