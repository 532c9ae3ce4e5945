#include "cli/line_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

class LineRelayTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(in_), 0);
    ASSERT_EQ(pipe(out_), 0);
    fcntl(out_[0], F_SETFL, O_NONBLOCK);
  }
  void TearDown() override {
    CloseInput();
    close(out_[0]);
    close(out_[1]);
  }

  void Write(const std::string& text) {
    ASSERT_EQ(write(in_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseInput() {
    if (in_[1] >= 0) close(in_[1]);
    in_[1] = -1;
  }
  std::string Written() {
    std::string text(1 << 18, '\0');
    const ssize_t bytes = read(out_[0], text.data(), text.size());
    text.resize(bytes > 0 ? bytes : 0);
    return text;
  }

  int in_[2], out_[2];
  absl::Status status_;
};

TEST_F(LineRelayTest, WritesWholeLinesOnlyEachWithItsLabel) {
  LineRelay relay(in_[0], LabelledLines(out_[1], "[3] ", status_));
  Write("one\ntw");
  EXPECT_TRUE(relay.Pump());
  EXPECT_EQ(Written(), "[3] one\n");
  Write("o\n\nthree");
  EXPECT_TRUE(relay.Pump());
  EXPECT_EQ(Written(), "[3] two\n[3] \n");
  CloseInput();
  EXPECT_FALSE(relay.Pump());
  EXPECT_EQ(Written(), "[3] three\n");
}

TEST_F(LineRelayTest, NothingBecomesNothing) {
  LineRelay relay(in_[0], LabelledLines(out_[1], "[3] ", status_));
  EXPECT_TRUE(relay.Pump());
  relay.Finish();
  CloseInput();
  EXPECT_FALSE(relay.Pump());
  EXPECT_EQ(Written(), "");
}

TEST_F(LineRelayTest, ALineWithoutEndIsWrittenInParts) {
  fcntl(in_[1], F_SETPIPE_SZ, 1 << 18);
  fcntl(out_[1], F_SETPIPE_SZ, 1 << 18);
  LineRelay relay(in_[0], LabelledLines(out_[1], "> ", status_));
  Write(std::string(100'000, 'x'));
  EXPECT_TRUE(relay.Pump());
  const std::string part = Written();
  EXPECT_TRUE(part.starts_with("> xxx"));
  EXPECT_GT(part.size(), size_t{1 << 16});
}

TEST_F(LineRelayTest, WhatCanNotBeWrittenIsKnownAndTheEndOfAReaderIsNone) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  LineSink sink = LabelledLines(full, "[3] ", status_);
  sink("lost");
  EXPECT_THAT(status_, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("No space left")));
  close(full);

  signal(SIGPIPE, SIG_IGN);
  close(out_[0]);
  absl::Status without_reader;
  LabelledLines(out_[1], "[3] ", without_reader)("lost");
  EXPECT_OK(without_reader);
  out_[0] = dup(out_[1]);
}

}  // namespace
}  // namespace strata
