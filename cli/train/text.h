#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/batch.h"

namespace strata {

// A text as bytes, cut into what is trained on and a tail of a tenth that is only evaluated on.
class Text {
 public:
  // InvalidArgument names the file, and what to do when it is missing or too short for `context`.
  static absl::StatusOr<Text> Load(const std::string& path, int64_t context);

  // Bytes drawn by the seed, for a model to which any do.
  static Text Drawn(uint64_t seed);

  // Bytes to hold what a Batch refers to.
  struct Storage {
    std::vector<uint8_t> tokens, targets;
    int64_t sequences = 0;
    Batch View() const { return {sequences, tokens, targets}; }
  };

  // Sequences at offsets drawn by (seed, index): the same wherever they are drawn. Every
  // (step, micro-step, position) has an index of its own.
  Storage TrainingBatch(uint64_t seed, uint64_t index, int64_t sequences, int64_t context) const;

  // As above, from the tail.
  Storage EvaluationBatch(uint64_t seed, uint64_t index, int64_t sequences, int64_t context) const;

 private:
  Storage Draw(uint64_t seed, uint32_t stream, uint64_t index, int64_t begin, int64_t end,
               int64_t sequences, int64_t context) const;

  std::vector<uint8_t> bytes_;
  int64_t training_bytes_ = 0;
};

}  // namespace strata
