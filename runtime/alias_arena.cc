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

  bool TryReserve(int slot) override;
  void Free(int slot) override;
  void Map(int slot) override;
  void Unmap(int slot) override;
  std::byte* Address(int slot) const override { return slots_[slot].address; }
  PlanBuffer Pages(int slot) const override {
    return {.pages = slots_[slot].memory, .page_bytes = page_bytes_};
  }
  int64_t used_bytes() const override { return used_pages_ * page_bytes_; }

 private:
  struct SlotState {
    int section = 0;
    std::byte* address = nullptr;
    std::vector<int64_t> pages;      // of the pool, as last reserved
    std::vector<std::byte*> memory;  // the same, for lanes
    bool reserved = false;
    bool paged = false;   // `pages` says something
    bool mapped = false;  // at `address` lie `pages`, accessible or not
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
    SlotState state{.section = slot.section, .address = address};
    const int64_t pages = PagesOf(slot.bytes, page_bytes_);
    state.pages.resize(static_cast<size_t>(pages));
    state.memory.resize(static_cast<size_t>(pages));
    address += pages * page_bytes_;
    slots_.push_back(std::move(state));
  }
}

bool AliasArena::TryReserve(int slot) {
  SlotState& state = slots_[slot];
  STRATA_CHECK(!state.reserved);
  Section& section = sections_[state.section];
  const int64_t wanted = static_cast<int64_t>(state.pages.size());
  if (section.free < wanted) return false;
  // The same pages as last time need no new mapping.
  const bool again = state.paged && std::none_of(state.pages.begin(), state.pages.end(),
                                                 [this](int64_t page) { return taken_[page]; });
  if (!again) {
    int64_t page = section.first;
    for (size_t i = 0; i < state.pages.size(); ++i, ++page) {
      while (taken_[page]) ++page;
      state.pages[i] = page;
      state.memory[i] = pool_.bytes.data() + page * page_bytes_;
    }
    state.mapped = false;
  }
  for (int64_t page : state.pages) taken_[page] = true;
  section.free -= wanted;
  used_pages_ += wanted;
  state.paged = state.reserved = true;
  return true;
}

void AliasArena::Free(int slot) {
  SlotState& state = slots_[slot];
  STRATA_CHECK(state.reserved);
  for (int64_t page : state.pages) taken_[page] = false;
  sections_[state.section].free += static_cast<int64_t>(state.pages.size());
  used_pages_ -= static_cast<int64_t>(state.pages.size());
  state.reserved = false;
}

void AliasArena::Map(int slot) {
  SlotState& state = slots_[slot];
  STRATA_CHECK(state.reserved);
  const size_t count = state.pages.size();
  if (state.mapped) {
    STRATA_CHECK(mprotect(state.address, count * page_bytes_, PROT_READ | PROT_WRITE) == 0);
    return;
  }
  for (size_t first = 0; first < count;) {
    size_t end = first + 1;
    while (end < count && state.pages[end] == state.pages[end - 1] + 1) ++end;
    void* const address = state.address + first * page_bytes_;
    const void* const mapped =
        mmap(address, (end - first) * page_bytes_, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_POPULATE, pool_.fd, state.pages[first] * page_bytes_);
    STRATA_CHECK(mapped == address);
    first = end;
  }
  state.mapped = true;
}

void AliasArena::Unmap(int slot) {
  SlotState& state = slots_[slot];
  if (state.pages.empty()) return;
  STRATA_CHECK(mprotect(state.address, state.pages.size() * page_bytes_, PROT_NONE) == 0);
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
