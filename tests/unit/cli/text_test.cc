#include "cli/train/text.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

// A file with `bytes`, gone with this object.
class TextFile {
 public:
  explicit TextFile(const std::string& bytes)
      : path_(testing::TempDir() + "text_test." + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TextFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

constexpr int64_t kContext = 7;

// Byte i is i: what a batch shows is where it was cut.
std::string Counting(int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(i));
  return text;
}

Text Load(const std::string& bytes) {
  const TextFile file(bytes);
  absl::StatusOr<Text> text = Text::Load(file.path(), kContext);
  EXPECT_OK(text);
  return *std::move(text);
}

TEST(TextTest, AMissingFileIsNamed) {
  EXPECT_THAT(
      Text::Load("/nonexistent/corpus.txt", kContext),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::AllOf(HasSubstr("/nonexistent/corpus.txt"), HasSubstr("No such file"))));
}

TEST(TextTest, ADirectoryIsNotAText) {
  EXPECT_THAT(Text::Load(testing::TempDir(), kContext),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("directory")));
}

TEST(TextTest, ADeviceIsNotAText) {
  EXPECT_THAT(Text::Load("/dev/zero", kContext),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only regular files")));
}

TEST(TextTest, AnEmptyOrShortFileSaysHowLongItMustBe) {
  for (const int bytes : {0, 1, 79}) {
    const TextFile file(std::string(static_cast<size_t>(bytes), 'x'));
    EXPECT_THAT(Text::Load(file.path(), kContext),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(HasSubstr("has " + std::to_string(bytes) + " bytes"),
                                        HasSubstr("at least 80"))));
  }
  const TextFile file(std::string(80, 'x'));
  EXPECT_OK(Text::Load(file.path(), kContext));
}

TEST(TextTest, TargetsAreTheTokensShiftedByOne) {
  const Text text = Load(Counting(200));
  const Text::Storage batch = text.TrainingBatch(1, 5, 3, kContext);
  ASSERT_EQ(batch.sequences, 3);
  ASSERT_EQ(batch.tokens.size(), 3u * kContext);
  ASSERT_EQ(batch.targets.size(), 3u * kContext);
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1) << i;
    if (i % kContext != 0) {
      EXPECT_EQ(batch.tokens[i], batch.tokens[i - 1] + 1) << i;
    }
  }
}

TEST(TextTest, ABatchIsAFunctionOfSeedAndIndex) {
  const Text text = Load(Counting(256) + Counting(256) + Counting(256));
  const auto tokens = [&](uint64_t seed, uint64_t index) {
    return text.TrainingBatch(seed, index, 5, kContext).tokens;
  };
  EXPECT_EQ(tokens(1, 0), tokens(1, 0));
  std::set<std::vector<uint8_t>> different;
  constexpr uint64_t kHigh = uint64_t{1} << 32;
  for (const uint64_t number : {uint64_t{1}, uint64_t{2}, uint64_t{3}, kHigh, kHigh + 1}) {
    different.insert(tokens(number, 0));
    different.insert(tokens(0, number));
  }
  EXPECT_EQ(different.size(), 10u);
}

TEST(TextTest, OnlyEvaluationSeesTheTailAndOnlyTheTail) {
  // The last tenth is marked; both kinds draw often enough to reach the ends of their parts.
  const Text text = Load(std::string(900, 'a') + std::string(100, 'b'));
  for (uint64_t index = 0; index < 300; ++index) {
    const Text::Storage training = text.TrainingBatch(1, index, 7, kContext);
    const Text::Storage evaluation = text.EvaluationBatch(1, index, 7, kContext);
    for (const auto* bytes : {&training.tokens, &training.targets}) {
      EXPECT_THAT(*bytes, testing::Each('a'));
    }
    for (const auto* bytes : {&evaluation.tokens, &evaluation.targets}) {
      EXPECT_THAT(*bytes, testing::Each('b'));
    }
  }
}

TEST(TextTest, WhatIsDrawnIsAFunctionOfTheSeed) {
  constexpr int64_t kLength = 64;
  std::set<std::vector<uint8_t>> different;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    const std::vector<uint8_t> tokens = Text::Drawn(seed).TrainingBatch(1, 0, 3, kLength).tokens;
    ASSERT_EQ(tokens.size(), 3u * kLength);
    EXPECT_EQ(Text::Drawn(seed).TrainingBatch(1, 0, 3, kLength).tokens, tokens);
    EXPECT_GT(std::set<uint8_t>(tokens.begin(), tokens.end()).size(), 64u);
    different.insert(tokens);
  }
  EXPECT_EQ(different.size(), 3u);
}

TEST(TextTest, EveryPlaceOfTheTextIsDrawn) {
  const Text text = Load(Counting(100));
  std::set<uint8_t> training, evaluation;
  for (uint64_t index = 0; index < 300; ++index) {
    const Text::Storage drawn = text.TrainingBatch(1, index, 7, kContext);
    training.insert(drawn.tokens.begin(), drawn.tokens.end());
    training.insert(drawn.targets.begin(), drawn.targets.end());
    const Text::Storage tail = text.EvaluationBatch(1, index, 7, kContext);
    evaluation.insert(tail.tokens.begin(), tail.tokens.end());
    evaluation.insert(tail.targets.begin(), tail.targets.end());
  }
  EXPECT_EQ(training.size(), 90u);
  EXPECT_EQ(evaluation.size(), 10u);
}

}  // namespace
}  // namespace strata
