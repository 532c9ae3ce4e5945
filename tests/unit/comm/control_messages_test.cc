#include <random>
#include <string>

#include "comm/control/messages.h"
#include "comm/control/rendezvous.h"
#include "comm/control/wire.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ControlHello Example() {
  return {.launcher_rank = 3,
          .size = 5,
          .host = "b",
          .node = "boot b",
          .fingerprint = R"({"threads":"1"})"};
}

TEST(ControlMessagesTest, HelloComesBack) {
  const auto hello = ControlHello::Decode(Example().Encode());
  ASSERT_OK(hello);
  EXPECT_EQ(hello->launcher_rank, 3u);
  EXPECT_EQ(hello->size, 5u);
  EXPECT_EQ(hello->host, "b");
  EXPECT_EQ(hello->node, "boot b");
  EXPECT_EQ(hello->fingerprint, R"({"threads":"1"})");
}

TEST(ControlMessagesTest, EveryCutHelloIsMalformed) {
  const std::string whole = Example().Encode();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(ControlHello::Decode(whole.substr(0, bytes)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("too short")));
  }
  EXPECT_THAT(ControlHello::Decode(whole + "x"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("1 bytes too many")));
}

TEST(ControlMessagesTest, LengthsBeyondTheMessageAllocateNothing) {
  WireWriter writer;
  writer.PutU32(0xffffffff);
  const std::string huge = writer.Take();
  EXPECT_THAT(DecodeStrings(huge, 0xffffffff),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("too short")));
  EXPECT_THAT(WireReader(huge).String(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("too short")));
}

TEST(ControlMessagesTest, StringsComeBack) {
  const std::vector<std::string> strings = {"", "a", std::string(1000, 'x'), std::string("\0y", 2)};
  const auto back = DecodeStrings(EncodeStrings(strings), 4);
  ASSERT_OK(back);
  EXPECT_EQ(*back, strings);
  EXPECT_THAT(DecodeStrings(EncodeStrings(strings), 5),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("4 entries instead of 5")));
}

TEST(ControlMessagesTest, StatusIsNeverOk) {
  const absl::Status why = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(DecodeStatus(EncodeStatus(why)), why);
  for (const uint32_t code : {0u, 17u, 0xffffffffu}) {
    WireWriter writer;
    writer.PutU32(code);
    writer.PutString("x");
    EXPECT_THAT(DecodeStatus(writer.Take()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("status code")));
  }
}

// Changed, cut and random messages: an error or a value, never more than the message holds.
TEST(ControlMessagesTest, Fuzz) {
  std::mt19937 random(20260101);
  int accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string bytes;
    if (round % 2 == 0) {
      bytes = Example().Encode();
      for (uint32_t changes = random() % 4; changes-- > 0;) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      bytes.resize(random() % (bytes.size() + 1));
    } else {
      bytes.resize(random() % 64);
      for (char& byte : bytes) byte = static_cast<char>(random() % 3 == 0 ? random() : 0);
    }
    const auto hello = ControlHello::Decode(bytes);
    if (hello.ok()) {
      ++accepted;
      EXPECT_LE(hello->host.size() + hello->node.size() + hello->fingerprint.size(), bytes.size());
    }
    const auto strings = DecodeStrings(bytes, random() % 4);
    EXPECT_TRUE(!strings.ok() || EncodeStrings(*strings) == bytes);
    EXPECT_FALSE(DecodeStatus(bytes).ok());
  }
  EXPECT_GT(accepted, 0);
}

std::vector<ControlHello> Ranks(const std::vector<std::string>& fingerprints) {
  std::vector<ControlHello> ranks;
  for (const std::string& fingerprint : fingerprints) {
    const auto rank = static_cast<uint32_t>(ranks.size());
    ranks.push_back({.launcher_rank = rank, .host = "h", .fingerprint = fingerprint});
  }
  return ranks;
}

TEST(FingerprintsTest, EqualWhateverTheirText) {
  EXPECT_OK(CompareFingerprints(Ranks({"", "", ""})));
  EXPECT_OK(CompareFingerprints(Ranks({R"({"a":"1","b":"2"})", R"({ "b": "2", "a": "1" })"})));
}

TEST(FingerprintsTest, AllDifferencesAreNamed) {
  EXPECT_THAT(
      CompareFingerprints(Ranks({R"({"a":"1","b":"2","c":"3"})", R"({"a":"1","b":"9"})",
                                 R"({"a":"1","b":"2","c":"3"})"})),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr(R"(b is "2" on launcher rank 0 (host h), launcher rank 2 (host h))"),
                     HasSubstr(R"("9" on launcher rank 1 (host h))"), HasSubstr(R"(c is "3" on)"),
                     HasSubstr("nothing on launcher rank 1"), Not(HasSubstr("a is")))));
}

TEST(FingerprintsTest, WhatIsNoObjectIsComparedAsText) {
  EXPECT_THAT(CompareFingerprints(Ranks({"[[[[", "{"})),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("[[[[")));
}

}  // namespace
}  // namespace strata
