#pragma once

#include <cstdint>
#include <deque>

#include "absl/strings/string_view.h"
#include "kernels/status.h"
#include "runtime/shard_memory.h"
#include "runtime/unit_table.h"

namespace strata {

// A fixed number of equal buffers that operations take turns with. One thread.
class BufferPool {
 public:
  static constexpr int kNone = -1;

  absl::Status Allocate(ShardMemory& memory, int count, int64_t bytes, absl::string_view what) {
    for (int i = 0; i < count; ++i) {
      STRATA_ASSIGN_OR_RETURN(std::byte* const base, memory.Allocate(bytes, what));
      slots_.push_back({.buffer = {.base = base, .bytes = bytes}});
    }
    return absl::OkStatus();
  }

  // kNone when all are taken.
  int Take() {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].taken) continue;
      slots_[i].taken = true;
      return static_cast<int>(i);
    }
    return kNone;
  }
  void Give(int index) { slots_[static_cast<size_t>(index)].taken = false; }

  FlatBuffer& At(int index) { return slots_[static_cast<size_t>(index)].buffer; }
  PlanBuffer View(int index) const { return slots_[static_cast<size_t>(index)].buffer.View(); }

 private:
  struct Slot {
    FlatBuffer buffer;
    bool taken = false;
  };
  std::deque<Slot> slots_;  // views into it stay valid
};

}  // namespace strata
