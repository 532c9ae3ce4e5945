#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/shard_layout.h"
#include "comm/topology.h"
#include "kernels/types.h"

namespace strata {

enum class Op : uint8_t { kSend, kRecv, kCopy, kReduce };

enum class BufferId : uint8_t { kInput, kOutput, kScratch };

// Bytes of one of a plan's three buffers.
struct Slice {
  BufferId buffer = BufferId::kInput;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// One thing a rank does:
//   kSend    src → peer
//   kRecv    peer → dst
//   kCopy    dst = src
//   kReduce  dst = src + other, rounded once to the plan's dtype
// It starts when the steps it depends on have ended. `message` is the same number at both ends of a
// transfer and unique per (sender, receiver) within the collective.
struct Step {
  Op op = Op::kCopy;
  int level = 0;  // of the link, for kSend and kRecv
  Rank peer{};
  uint32_t message = 0;
  Slice src, other, dst;
  int first_dependency = 0;  // into Plan::dependencies
  int dependency_count = 0;
};

// One collective as data, for one rank: a DAG of steps in topological order. Earlier steps go first
// where several are ready, so the order of steps is the schedule. Input, output and scratch are the
// caller's: the input is only read, the output is written exactly once per byte.
struct Plan {
  std::string name;  // "gather", "reduce", "exchange", …
  DType dtype = DType::kF32;
  int64_t input_bytes = 0;
  int64_t output_bytes = 0;
  int64_t scratch_bytes = 0;
  std::vector<Step> steps;
  std::vector<int> dependencies;

  std::span<const int> DependenciesOf(const Step& step) const {
    return {dependencies.data() + step.first_dependency,
            static_cast<size_t>(step.dependency_count)};
  }
};

struct PlanOptions {
  DType dtype = DType::kF32;
  // Largest transfer. Steps are cut at multiples of this many bytes of the unit, so that no slice
  // of a full-unit buffer crosses a page whose size is a multiple of it.
  int64_t chunk_bytes = 256 * 1024;
};

// The plan by which `self` and the others bring a unit from `from` (packed input) to `to` (packed
// output): every rank ends with its `to` ranges. A byte that a group needs and no member holds
// enters the group once and goes on inside the group while later chunks are still on the wire.
// Groups of a level form a ring; see [Note: How a stripe spreads] in gather_route.h. Pure.
// Steps: see docs/algorithms.md. Bytes into a group: |needed by it| - |held by it|.
absl::StatusOr<Plan> PlanGather(const Topology& topology, const ShardLayout& from,
                                const ShardLayout& to, Rank self, const PlanOptions& options);

// The plan by which the ranks of each group of the levels `over` add their values: rank r gives its
// `from` ranges (packed input) and ends with the sums of its `to` ranges (packed output). `to` must
// be sharded over every level of `over`, and `from` must not be.
// Order of addition: the canonical tree, nested per level, innermost first, ceil/floor halves
// ([Note: Canonical order] in plan_reduce.cc); each sum is rounded once to the dtype. Exchange in
// rotated rounds, receiver evaluates the tree; distance doubling where a group is a power of two.
absl::StatusOr<Plan> PlanReduce(const Topology& topology, const ShardLayout& from,
                                const ShardLayout& to, LevelSet over, Rank self,
                                const PlanOptions& options);

// The plan by which every rank gets the `record_bytes` bytes of every rank, in rank order. For the
// few hundred bytes that are exchanged at the boundary of a step.
absl::StatusOr<Plan> PlanExchange(const Topology& topology, int64_t record_bytes, Rank self);

// The plan by which every rank gets the `bytes` bytes of `root`. Between groups they go along a
// ring, chunk by chunk, so that no link carries them twice.
absl::StatusOr<Plan> PlanBroadcast(const Topology& topology, int64_t bytes, Rank root, Rank self,
                                   const PlanOptions& options);

// The plan by which each rank gives every rank its own part of `bytes` bytes: parts are equal but
// for one element, and the output holds them in the order of the ranks that gave them. Rotated: at
// a time, all groups send to different groups, and all ranks of a group to different ranks.
absl::StatusOr<Plan> PlanAllToAll(const Topology& topology, int64_t bytes, Rank self,
                                  const PlanOptions& options);

// The plan by which each rank gives its `bytes` bytes to the rank `places` further in canonical
// order; after the last comes the first.
absl::StatusOr<Plan> PlanShift(const Topology& topology, int64_t bytes, int places, Rank self,
                               const PlanOptions& options);

// Checks the plans of all ranks together: every send meets its receive of the same size, no cycle,
// no slice out of bounds, every output byte written exactly once.
absl::Status Validate(std::span<const Plan> plans);

struct WireBytes {
  int64_t sent = 0;
  int64_t received = 0;
};

// What one rank's plan moves over one level.
WireBytes CountWireBytes(const Plan& plan, int level);

// Least time of the collective: for each level the busiest group's bytes in one direction at the
// level's rate (levels of unknown rate cost nothing), plus one latency; the slowest level counts.
absl::Duration Estimate(std::span<const Plan> plans, const Topology& topology);

}  // namespace strata
