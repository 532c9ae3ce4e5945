#include "runtime/arena.h"

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/memfd_memory.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

constexpr int64_t kPage = 64 << 10;

using Maker = std::function<absl::StatusOr<std::unique_ptr<UnitArena>>(SharedMemory&,
                                                                       const UnitArena::Options&)>;

class Arena : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<UnitArena> Make(const UnitArena::Options& options) {
    const Maker make = GetParam() ? Maker(MakeAliasArena) : Maker(MakeFlatArena);
    absl::StatusOr<std::unique_ptr<UnitArena>> arena = make(memory_, options);
    EXPECT_OK(arena);
    return *std::move(arena);
  }
  MemfdMemory memory_;
};

// Writes through the lanes' pages, element by element of the slot.
void Fill(UnitArena& arena, int slot, int64_t bytes, int value) {
  const PlanBuffer pages = arena.Pages(slot, 0);
  for (int64_t at = 0; at < bytes; at += kPage) {
    std::memset(pages.At(at), value + static_cast<int>(at / kPage), std::min(kPage, bytes - at));
  }
}

TEST_P(Arena, ViewShowsWhatLanesWroteAtTheSameAddressEachTime) {
  const int64_t bytes = 2 * kPage + 5;
  auto arena = Make({.page_bytes = kPage, .section_pages = {6}, .slots = {{bytes}, {bytes}, {7}}});
  std::byte* const address = arena->Address(0);
  ASSERT_TRUE(arena->TryReserve(0));
  Fill(*arena, 0, bytes, 1);
  arena->Map(0, 0);
  EXPECT_EQ(address[0], std::byte{1});
  EXPECT_EQ(address[kPage], std::byte{2});
  EXPECT_EQ(address[bytes - 1], std::byte{3});
  address[1] = std::byte{99};  // and lanes see what the application writes
  EXPECT_EQ(*arena->Pages(0, 0).At(1), std::byte{99});
  arena->Unmap(0);
  arena->Free(0, 0);

  // Another slot takes the pages; the first gets others and shows those.
  ASSERT_TRUE(arena->TryReserve(1));
  ASSERT_TRUE(arena->TryReserve(0));
  Fill(*arena, 1, bytes, 10);
  Fill(*arena, 0, bytes, 20);
  arena->Map(0, 0);
  EXPECT_EQ(arena->Address(0), address);
  EXPECT_EQ(address[kPage], std::byte{21});
}

TEST_P(Arena, SectionsKeepTheirPages) {
  auto arena = Make({.page_bytes = kPage,
                     .section_pages = {3, 1},
                     .slots = {{2 * kPage, 0}, {2 * kPage, 0}, {1, 0}, {kPage, 1}, {0, 1}}});
  ASSERT_TRUE(arena->TryReserve(0));
  EXPECT_FALSE(arena->TryReserve(1));
  EXPECT_TRUE(arena->TryReserve(2));
  EXPECT_TRUE(arena->TryReserve(3));
  EXPECT_TRUE(arena->TryReserve(4));  // nothing is always there
  EXPECT_EQ(arena->used_bytes(), 4 * kPage);
  arena->Free(0, 0);
  EXPECT_EQ(arena->used_bytes(), 2 * kPage);
  EXPECT_TRUE(arena->TryReserve(1));
}

TEST_P(Arena, SecondCopyIsWrittenWhileTheViewShowsTheFirst) {
  const int64_t bytes = kPage + 3;
  auto arena = Make({.page_bytes = kPage, .section_pages = {5}, .slots = {{bytes, 0, 2}}});
  std::byte* const address = arena->Address(0);
  for (int round = 0; round < 3; ++round) {
    const std::optional<int> first = arena->TryReserve(0);
    ASSERT_TRUE(first.has_value());
    std::memset(arena->Pages(0, *first).At(kPage), 1, 3);
    arena->Map(0, *first);  // before the bytes have arrived, or after
    arena->Arrived(0, *first);
    const std::optional<int> second = arena->TryReserve(0);
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(arena->TryReserve(0), std::nullopt);  // whatever the pool has
    EXPECT_EQ(arena->used_bytes(), 4 * kPage);
    std::memset(arena->Pages(0, *second).At(kPage), 2, 3);
    address[kPage + 1] = std::byte{3};
    arena->Arrived(0, *second);
    EXPECT_EQ(address[kPage + 1], std::byte{3});  // a view in use is not written
    EXPECT_EQ(address[kPage + 2], std::byte{1});
    arena->Unmap(0);
    arena->Free(0, *first);
    arena->Map(0, *second);
    EXPECT_EQ(address[kPage + 2], std::byte{2});
    arena->Unmap(0);
    arena->Free(0, *second);
  }
  EXPECT_EQ(arena->used_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Arena, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Alias" : "Flat";
                         });

TEST(AliasArenaDeathTest, AReleasedViewIsOutOfReach) {
  MemfdMemory memory;
  const auto arena =
      *MakeAliasArena(memory, {.page_bytes = kPage, .section_pages = {1}, .slots = {{kPage}}});
  ASSERT_TRUE(arena->TryReserve(0));
  arena->Map(0, 0);
  arena->Address(0)[0] = std::byte{1};
  arena->Unmap(0);
  EXPECT_DEATH(arena->Address(0)[0] = std::byte{2}, "");
}

TEST(ChoosePageBytes, WastesAtMostASixteenthOrTakesTheLeast) {
  EXPECT_EQ(ChoosePageBytes(std::vector<int64_t>{64 << 20}), 2 << 20);
  EXPECT_EQ(ChoosePageBytes(std::vector<int64_t>{3 << 20, 3 << 20}), 1 << 20);
  EXPECT_EQ(ChoosePageBytes(std::vector<int64_t>{1, 5003}), 64 << 10);
  EXPECT_EQ(ChoosePageBytes(std::vector<int64_t>{}), 2 << 20);
}

}  // namespace
}  // namespace strata
