#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/status.h"
#include "runtime/arena.h"

namespace strata {
namespace {

absl::Status SystemError(absl::string_view what, int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " of ", bytes, " bytes: ", std::strerror(errno)));
}

class AliasArena final : public UnitArena {
 public:
  AliasArena(const SharedSegment& pool, std::byte* view, int64_t view_bytes,
             const Options& options);
  ~AliasArena() override { munmap(view_, static_cast<size_t>(view_bytes_)); }

  std::optional<int> TryReserve(int slot) override;
  void Free(int slot, int copy) override;
  void Map(int slot, int copy) override;
  void Unmap(int slot) override;
  void Arrived(int, int) override {}
  std::byte* Address(int slot) const override { return slots_[slot].address; }
  PlanBuffer Pages(int slot, int copy) const override {
    return {.pages = slots_[slot].copies[copy].memory, .page_bytes = page_bytes_};
  }
  int64_t used_bytes() const override { return used_pages_ * page_bytes_; }

 private:
  struct Copy {
    std::vector<int64_t> pages;      // of the pool, as last reserved
    std::vector<std::byte*> memory;  // the same, for lanes
    bool reserved = false;
    bool paged = false;  // `pages` says something
  };
  struct SlotState {
    int section = 0;
    std::byte* address = nullptr;
    int64_t page_count = 0;  // of each copy
    std::vector<Copy> copies;
    int mapped = -1;  // at `address` lie the pages of this copy, accessible or not
  };
  struct Section {
    int64_t first = 0;
    int64_t end = 0;
    int64_t free = 0;
  };

  const SharedSegment pool_;
  std::byte* const view_;
  const int64_t view_bytes_;
  const int64_t page_bytes_;
  std::vector<Section> sections_;
  std::vector<bool> taken_;  // per page of the pool
  std::vector<SlotState> slots_;
  int64_t used_pages_ = 0;
};

AliasArena::AliasArena(const SharedSegment& pool, std::byte* view, int64_t view_bytes,
                       const Options& options)
    : pool_(pool), view_(view), view_bytes_(view_bytes), page_bytes_(options.page_bytes) {
  int64_t page = 0;
  for (int64_t pages : options.section_pages) {
    sections_.push_back({.first = page, .end = page + pages, .free = pages});
    page += pages;
  }
  taken_.resize(static_cast<size_t>(page));
  std::byte* address = view;
  for (const Slot& slot : options.slots) {
    const int64_t pages = PagesOf(slot.bytes, page_bytes_);
    SlotState state{.section = slot.section, .address = address, .page_count = pages};
    state.copies.resize(static_cast<size_t>(slot.copies));
    for (Copy& copy : state.copies) {
      copy.pages.resize(static_cast<size_t>(pages));
      copy.memory.resize(static_cast<size_t>(pages));
    }
    address += pages * page_bytes_;
    slots_.push_back(std::move(state));
  }
}

std::optional<int> AliasArena::TryReserve(int slot) {
  SlotState& state = slots_[slot];
  Section& section = sections_[state.section];
  if (section.free < state.page_count) return std::nullopt;
  // The copy that the view showed last comes first: its old pages need no new mapping.
  int index = std::max(state.mapped, 0);
  if (state.copies[index].reserved) {
    const auto free = std::find_if(state.copies.begin(), state.copies.end(),
                                   [](const Copy& copy) { return !copy.reserved; });
    if (free == state.copies.end()) return std::nullopt;
    index = static_cast<int>(free - state.copies.begin());
  }
  Copy& copy = state.copies[index];
  const bool again = copy.paged && std::none_of(copy.pages.begin(), copy.pages.end(),
                                                [this](int64_t page) { return taken_[page]; });
  if (!again) {
    int64_t page = section.first;
    for (size_t i = 0; i < copy.pages.size(); ++i, ++page) {
      while (taken_[page]) ++page;
      copy.pages[i] = page;
      copy.memory[i] = pool_.bytes.data() + page * page_bytes_;
    }
    if (state.mapped == index) state.mapped = -1;
  }
  for (int64_t page : copy.pages) taken_[page] = true;
  section.free -= state.page_count;
  used_pages_ += state.page_count;
  copy.paged = copy.reserved = true;
  return index;
}

void AliasArena::Free(int slot, int index) {
  SlotState& state = slots_[slot];
  Copy& copy = state.copies[index];
  STRATA_CHECK(copy.reserved);
  for (int64_t page : copy.pages) taken_[page] = false;
  sections_[state.section].free += state.page_count;
  used_pages_ -= state.page_count;
  copy.reserved = false;
}

void AliasArena::Map(int slot, int index) {
  SlotState& state = slots_[slot];
  const Copy& copy = state.copies[index];
  STRATA_CHECK(copy.reserved);
  const size_t count = copy.pages.size();
  if (state.mapped == index) {
    STRATA_CHECK(mprotect(state.address, count * page_bytes_, PROT_READ | PROT_WRITE) == 0);
    return;
  }
  for (size_t first = 0; first < count;) {
    size_t end = first + 1;
    while (end < count && copy.pages[end] == copy.pages[end - 1] + 1) ++end;
    void* const address = state.address + first * page_bytes_;
    const void* const mapped =
        mmap(address, (end - first) * page_bytes_, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_POPULATE, pool_.fd, copy.pages[first] * page_bytes_);
    STRATA_CHECK(mapped == address);
    first = end;
  }
  state.mapped = index;
}

void AliasArena::Unmap(int slot) {
  SlotState& state = slots_[slot];
  if (state.page_count == 0) return;
  STRATA_CHECK(mprotect(state.address, state.page_count * page_bytes_, PROT_NONE) == 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnitArena>> MakeAliasArena(SharedMemory& memory,
                                                          const UnitArena::Options& options) {
  int64_t pool_bytes = 0, view_bytes = 0;
  for (int64_t pages : options.section_pages) pool_bytes += pages * options.page_bytes;
  for (const UnitArena::Slot& slot : options.slots) {
    view_bytes += PagesOf(slot.bytes, options.page_bytes) * options.page_bytes;
  }
  pool_bytes = std::max(pool_bytes, options.page_bytes);
  view_bytes = std::max(view_bytes, options.page_bytes);
  absl::StatusOr<SharedSegment> pool = memory.Allocate(pool_bytes);
  if (!pool.ok()) return Annotate(pool.status(), "unit memory (prefetch.bytes)");
  void* const view = mmap(nullptr, static_cast<size_t>(view_bytes), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (view == MAP_FAILED) return SystemError("address range for units", view_bytes);
  return std::make_unique<AliasArena>(*pool, static_cast<std::byte*>(view), view_bytes, options);
}

}  // namespace strata
