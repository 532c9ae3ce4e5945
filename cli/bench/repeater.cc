#include "cli/bench/repeater.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/bench/interrupt.h"
#include "kernels/status.h"
#include "runtime/config/quantity.h"

namespace strata {

absl::StatusOr<OperationMemory> OperationMemory::Allocate(SharedMemory& memory,
                                                          std::span<const Operation> operations) {
  const auto allocate = [&](auto bytes_of) -> absl::StatusOr<std::span<std::byte>> {
    int64_t most = 1;
    for (const Operation& operation : operations) most = std::max(most, bytes_of(operation));
    STRATA_ASSIGN_OR_RETURN(SharedSegment segment, memory.Allocate(most));
    return segment.bytes;
  };
  OperationMemory made;
  STRATA_ASSIGN_OR_RETURN(made.input_,
                          allocate([](const Operation& o) { return o.input_bytes(); }));
  STRATA_ASSIGN_OR_RETURN(made.output_,
                          allocate([](const Operation& o) { return o.output_bytes(); }));
  STRATA_ASSIGN_OR_RETURN(made.between_,
                          allocate([](const Operation& o) { return o.between_bytes(); }));
  STRATA_ASSIGN_OR_RETURN(made.scratch_,
                          allocate([](const Operation& o) { return o.scratch_bytes(); }));
  return made;
}

Repeater::Repeater(Lane lane, int level_count, const Operation& operation,
                   const OperationMemory& memory, uint32_t first_number)
    : lane_(lane), level_count_(level_count), operation_(operation), number_(first_number) {
  const auto one_page = [](std::span<std::byte> bytes) {
    return OnePage{bytes.data(), static_cast<int64_t>(bytes.size())};
  };
  input_ = one_page(memory.input(operation));
  output_ = one_page(memory.output(operation));
  between_ = one_page(memory.between(operation));
  scratch_ = one_page(memory.scratch(operation));
}

absl::StatusOr<Repeater::Result> Repeater::Run(int64_t count, absl::Duration deadline) {
  count_ = count;
  deadline_ = deadline;
  result_.times.clear();
  result_.times.reserve(static_cast<size_t>(count));
  result_.moved.assign(level_count_, WireBytes{});
  lane_.loop->Post([this] {
    began_ = lane_.loop->Now();
    StartStage();
  });
  STRATA_ASSIGN_OR_RETURN(const absl::Status ended, WaitUnlessInterrupted(ended_));
  STRATA_RETURN_IF_ERROR(ended);
  return std::move(result_);
}

void Repeater::StartStage() {
  if (stage_ == 0) expires_ = lane_.loop->Now() + deadline_;
  const bool first = stage_ == 0, last = stage_ + 1 == operation_.stages.size();
  const uint32_t number = number_++;
  RunOptions options{
      .what = absl::StrCat(Name(operation_.kind), " of ", FormatSize(operation_.bytes), ", ",
                           result_.times.size() + 1, " of ", count_),
      .operation = number,
      .order = number,
      .deadline = expires_,
      .moved = result_.moved};
  lane_.runner->Run(
      operation_.stages[stage_],
      {(first ? input_ : between_).view(), (last ? output_ : between_).view(), scratch_.view()},
      std::move(options), [this](absl::Status status) { OnStage(std::move(status)); });
}

void Repeater::OnStage(absl::Status status) {
  if (!status.ok()) return ended_.Set(std::move(status));
  if (++stage_ < operation_.stages.size()) return StartStage();
  stage_ = 0;
  const absl::Time now = lane_.loop->Now();
  result_.times.push_back(now - began_);
  began_ = now;
  if (static_cast<int64_t>(result_.times.size()) < count_) return StartStage();
  ended_.Set(absl::OkStatus());
}

}  // namespace strata
