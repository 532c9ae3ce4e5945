#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/plan.h"
#include "comm/plan_runner.h"

namespace strata {

// Input, output and scratch of one run of a plan. Input and output are in pages of `page_bytes`.
class PlanMemory {
 public:
  PlanMemory(const Plan& plan, int64_t page_bytes)
      : input_(plan.input_bytes, page_bytes),
        output_(plan.output_bytes, page_bytes),
        scratch_(plan.scratch_bytes, plan.scratch_bytes) {}

  PlanBuffers buffers() const { return {input_.view(), output_.view(), scratch_.view()}; }
  std::vector<std::byte>& input() { return input_.bytes; }
  const std::vector<std::byte>& output() const { return output_.bytes; }

 private:
  struct Paged {
    Paged(int64_t size, int64_t page) : bytes(size), page_bytes(page) {
      for (int64_t at = 0; at < size; at += page) pages.push_back(bytes.data() + at);
    }
    PlanBuffer view() const { return {.pages = pages, .page_bytes = page_bytes}; }
    std::vector<std::byte> bytes;
    int64_t page_bytes;
    std::vector<std::byte*> pages;
  };
  Paged input_, output_, scratch_;
};

}  // namespace strata
