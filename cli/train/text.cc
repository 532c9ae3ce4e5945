#include "cli/train/text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/random.h"
#include "runtime/config/regular_file.h"

namespace strata {
namespace {

constexpr int64_t kMostBytes = int64_t{4} << 30;  // every rank holds the text

constexpr int64_t kDrawnBytes = 1 << 16;

// Of Philox's counter: what is drawn for one purpose says nothing of what is drawn for another.
constexpr uint32_t kTrainingStream = 0, kEvaluationStream = 1, kDrawnStream = 2;

}  // namespace

absl::StatusOr<Text> Text::Load(const std::string& path, int64_t context) {
  const absl::StatusOr<std::string> bytes = ReadRegularFile(path, kMostBytes);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot read \"", path, "\": ", bytes.status().message(), "; give any text file"));
  }
  Text text;
  text.bytes_.assign(bytes->begin(), bytes->end());
  const int64_t size = static_cast<int64_t>(text.bytes_.size());
  text.training_bytes_ = size - size / 10;
  if (size / 10 < context + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\" has ", size, " bytes; sequences of ", context,
                     " bytes need at least ", 10 * (context + 1), ": give a longer text"));
  }
  return text;
}

Text Text::Drawn(uint64_t seed) {
  Text text;
  for (uint32_t i = 0; i < kDrawnBytes / sizeof(uint32_t); ++i) {
    const uint32_t word = Philox({i, 0, 0, kDrawnStream}, {static_cast<uint32_t>(seed),
                                                           static_cast<uint32_t>(seed >> 32)})[0];
    for (int shift = 0; shift < 32; shift += 8) {
      text.bytes_.push_back(static_cast<uint8_t>(word >> shift));
    }
  }
  text.training_bytes_ = kDrawnBytes - kDrawnBytes / 10;
  return text;
}

Text::Storage Text::TrainingBatch(uint64_t seed, uint64_t index, int64_t sequences,
                                  int64_t context) const {
  return Draw(seed, kTrainingStream, index, 0, training_bytes_, sequences, context);
}

Text::Storage Text::EvaluationBatch(uint64_t seed, uint64_t index, int64_t sequences,
                                    int64_t context) const {
  return Draw(seed, kEvaluationStream, index, training_bytes_, static_cast<int64_t>(bytes_.size()),
              sequences, context);
}

Text::Storage Text::Draw(uint64_t seed, uint32_t stream, uint64_t index, int64_t begin, int64_t end,
                         int64_t sequences, int64_t context) const {
  Storage batch;
  batch.sequences = sequences;
  const uint64_t starts = static_cast<uint64_t>(end - begin - context);
  for (int64_t s = 0; s < sequences; ++s) {
    const auto words = Philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               static_cast<uint32_t>(s), stream},
                              {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const uint64_t word = (uint64_t{words[1]} << 32) | words[0];
    const auto first = bytes_.begin() + begin + static_cast<int64_t>(word % starts);
    batch.tokens.insert(batch.tokens.end(), first, first + context);
    batch.targets.insert(batch.targets.end(), first + 1, first + context + 1);
  }
  return batch;
}

}  // namespace strata
