#include "cli/bench/records.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cli/bench/interrupt.h"
#include "kernels/status.h"

namespace strata {

absl::StatusOr<std::unique_ptr<Records>> Records::Create(World& world, int64_t most_doubles,
                                                         absl::Duration deadline) {
  std::unique_ptr<Records> records(new Records(world, deadline));
  const int64_t bytes = most_doubles * static_cast<int64_t>(sizeof(double));
  STRATA_ASSIGN_OR_RETURN(SharedSegment input, world.shared_memory().Allocate(bytes));
  STRATA_ASSIGN_OR_RETURN(SharedSegment output,
                          world.shared_memory().Allocate(bytes * world.topology().size()));
  records->input_ = input.bytes.data();
  records->output_ = output.bytes.data();
  return records;
}

absl::StatusOr<std::vector<std::vector<double>>> Records::Exchange(std::span<const double> mine,
                                                                   const std::string& what) {
  const auto bytes = static_cast<int64_t>(mine.size_bytes());
  std::shared_ptr<const Plan>& plan = plans_[bytes];
  if (plan == nullptr) {
    STRATA_ASSIGN_OR_RETURN(Plan made, PlanExchange(world_.topology(), bytes, world_.self()));
    plan = std::make_shared<const Plan>(std::move(made));
  }
  std::memcpy(input_, mine.data(), mine.size_bytes());
  const Lane lane = world_.reduce();
  const uint32_t number = number_++;
  lane.loop->Post([this, lane, number, plan, what] {
    RunOptions options{.what = what, .operation = number, .order = number};
    options.deadline = lane.loop->Now() + deadline_;
    const PlanBuffer input{{&input_, 1}, std::max<int64_t>(plan->input_bytes, 1)};
    const PlanBuffer output{{&output_, 1}, std::max<int64_t>(plan->output_bytes, 1)};
    lane.runner->Run(plan, {input, output, {}}, std::move(options),
                     [this](absl::Status status) { ended_.Set(std::move(status)); });
  });
  STRATA_ASSIGN_OR_RETURN(const absl::Status ended, WaitUnlessInterrupted(ended_));
  STRATA_RETURN_IF_ERROR(ended);
  std::vector<std::vector<double>> all(world_.topology().size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].resize(mine.size());
    std::memcpy(all[rank].data(), output_ + rank * mine.size_bytes(), mine.size_bytes());
  }
  return all;
}

}  // namespace strata
