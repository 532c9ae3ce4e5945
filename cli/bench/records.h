#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/awaited.h"
#include "comm/lane.h"
#include "comm/plan.h"
#include "comm/world.h"

namespace strata {

// What ranks tell each other between measurements, on the reduce lane. Each exchange is a barrier
// too: it ends when all ranks have come to it. Outlives what it started: the lane is closed before
// it goes.
class Records {
 public:
  // Records of up to `most_doubles` numbers.
  static absl::StatusOr<std::unique_ptr<Records>> Create(World& world, int64_t most_doubles,
                                                         absl::Duration deadline);

  // Every rank's numbers, by rank: as many from each. Blocks, not in a loop. After an error the
  // lane has ended, or must be ended.
  absl::StatusOr<std::vector<std::vector<double>>> Exchange(std::span<const double> mine,
                                                            const std::string& what);

 private:
  Records(World& world, absl::Duration deadline) : world_(world), deadline_(deadline) {}

  World& world_;
  const absl::Duration deadline_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::map<int64_t, std::shared_ptr<const Plan>> plans_;  // by bytes of a record
  uint32_t number_ = 0;
  Awaited<absl::Status> ended_;
};

}  // namespace strata
