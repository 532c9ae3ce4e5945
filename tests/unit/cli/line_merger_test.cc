#include "cli/line_merger.h"

#include <fcntl.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace strata {
namespace {

class LineMergerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(out_), 0);
    fcntl(out_[0], F_SETFL, O_NONBLOCK);
  }
  void TearDown() override {
    close(out_[0]);
    close(out_[1]);
  }
  std::string Written() {
    std::string text(1 << 16, '\0');
    const ssize_t bytes = read(out_[0], text.data(), text.size());
    text.resize(bytes > 0 ? bytes : 0);
    return text;
  }

  const absl::Time start_ = absl::UnixEpoch();
  int out_[2];
};

TEST_F(LineMergerTest, WhatSeveralRanksWriteIsWrittenOnceWithTheirNumbers) {
  LineMerger merger(out_[1], 7, /*labels_rank_0=*/false);
  for (const int rank : {5, 1, 3, 2, 0}) merger.Add(rank, "no such key", start_);
  merger.Add(4, "no such file", start_);
  merger.WriteDue(start_ + LineMerger::kHeld);
  EXPECT_EQ(Written(), "[0-3, 5] no such key\n[4] no such file\n");
  EXPECT_EQ(merger.due(), absl::InfiniteFuture());
}

TEST_F(LineMergerTest, WhatAllRanksWriteCarriesNoLabelUnlessAllDo) {
  for (const bool labels : {false, true}) {
    LineMerger merger(out_[1], 3, labels);
    for (const int rank : {2, 0, 1}) merger.Add(rank, "all", start_);
    merger.Add(0, "alone", start_);
    merger.WriteDue(start_ + LineMerger::kHeld);
    EXPECT_EQ(Written(), labels ? "[0-2] all\n[0] alone\n" : "all\nalone\n");
  }
}

TEST_F(LineMergerTest, OneRankMayRepeatItself) {
  LineMerger merger(out_[1], 2, false);
  for (int time = 0; time < 2; ++time) merger.Add(1, "again", start_);
  merger.Add(0, "again", start_);
  merger.WriteDue(start_ + LineMerger::kHeld);
  EXPECT_EQ(Written(), "again\n[1] again\n");
}

TEST_F(LineMergerTest, HoldsALineForAMomentAndKeepsTheOrder) {
  LineMerger merger(out_[1], 2, false);
  const absl::Time later = start_ + absl::Milliseconds(1);
  merger.Add(1, "first", start_);
  merger.Add(LineMerger::kCommand, "rank 1 has ended", later);
  merger.Add(1, "rank 1 has ended", later);
  EXPECT_EQ(merger.due(), start_ + LineMerger::kHeld);
  merger.WriteDue(later);
  EXPECT_EQ(Written(), "");
  merger.WriteDue(start_ + LineMerger::kHeld);
  EXPECT_EQ(Written(), "[1] first\n");
  merger.WriteDue(later + LineMerger::kHeld);
  EXPECT_EQ(Written(), "rank 1 has ended\n[1] rank 1 has ended\n");
}

TEST(RankListTest, WritesRunsByTheirEnds) {
  EXPECT_EQ(RankList({}), "");
  EXPECT_EQ(RankList({7}), "7");
  EXPECT_EQ(RankList({0, 1}), "0, 1");
  EXPECT_EQ(RankList({0, 2, 3, 4, 6, 7}), "0, 2-4, 6, 7");
}

}  // namespace
}  // namespace strata
