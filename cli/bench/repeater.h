#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/bench/operation.h"
#include "comm/awaited.h"
#include "comm/lane.h"
#include "comm/shared_memory.h"

namespace strata {

// Memory of one rank for operations up to a size: each buffer one run of shared bytes.
class OperationMemory {
 public:
  // Makes room for all of `operations`.
  static absl::StatusOr<OperationMemory> Allocate(SharedMemory& memory,
                                                  std::span<const Operation> operations);

  std::span<std::byte> input(const Operation& operation) const {
    return Front(input_, operation.input_bytes());
  }
  std::span<std::byte> output(const Operation& operation) const {
    return Front(output_, operation.output_bytes());
  }
  std::span<std::byte> between(const Operation& operation) const {
    return Front(between_, operation.between_bytes());
  }
  std::span<std::byte> scratch(const Operation& operation) const {
    return Front(scratch_, operation.scratch_bytes());
  }

 private:
  static std::span<std::byte> Front(std::span<std::byte> of, int64_t bytes) {
    return of.first(static_cast<size_t>(bytes));
  }

  std::span<std::byte> input_, output_, between_, scratch_;
};

// Runs one operation again and again on a lane, each as soon as the one before has ended here.
// Outlives what it started: the lane is closed before it goes.
class Repeater {
 public:
  // `first_number` and the numbers after it are those of operations on the lane, the same on all
  // ranks; each stage of an operation takes one.
  Repeater(Lane lane, int level_count, const Operation& operation, const OperationMemory& memory,
           uint32_t first_number);

  struct Result {
    std::vector<absl::Duration> times;  // from the end of the operation before
    std::vector<WireBytes> moved;       // per level
  };

  // Blocks until `count` operations have ended, each within `deadline`. Not in a loop. After an
  // error the lane has ended, or must be ended.
  absl::StatusOr<Result> Run(int64_t count, absl::Duration deadline);

  uint32_t next_number() const { return number_; }

 private:
  // One run of bytes as a plan's buffer.
  struct OnePage {
    std::byte* page = nullptr;
    int64_t bytes = 0;
    PlanBuffer view() { return {{&page, 1}, std::max<int64_t>(bytes, 1)}; }
  };

  // In the loop.
  void StartStage();
  void OnStage(absl::Status status);

  const Lane lane_;
  const int level_count_;
  const Operation& operation_;
  OnePage input_, output_, between_, scratch_;
  uint32_t number_;
  absl::Duration deadline_;
  int64_t count_ = 0;
  size_t stage_ = 0;
  absl::Time began_, expires_;
  Result result_;
  Awaited<absl::Status> ended_;
};

}  // namespace strata
