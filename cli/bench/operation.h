#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bench/options.h"
#include "comm/plan.h"
#include "comm/shard_layout.h"
#include "comm/topology.h"

namespace strata {

// One collective of one size as one rank does it: plans that run one after the other, each on the
// output of the one before. Immutable.
struct Operation {
  BenchKind kind = BenchKind::kAllGather;
  DType dtype = DType::kF32;
  int64_t bytes = 0;  // as nccl-tests counts them: of the larger of input and output
  std::vector<std::shared_ptr<const Plan>> stages;
  std::optional<UnitShards> shards;  // of gathers and reductions: who holds which elements

  int64_t input_bytes() const { return stages.front()->input_bytes; }
  int64_t output_bytes() const { return stages.back()->output_bytes; }
  int64_t between_bytes() const;  // from one stage to the next
  int64_t scratch_bytes() const;
};

absl::StatusOr<Operation> MakeOperation(const Topology& topology, const BenchOptions& options,
                                        int64_t bytes, Rank self);

// sendrecv: everyone sends to the rank this many places further, which is the one with the same
// local index on the next node where nodes are equal; to the next rank where there is one node.
int SendRecvPlaces(const Topology& topology);

// What moves over the outermost level at least in one direction, for the busiest of its child
// groups: from counts of ranks alone, as M(g-1)/g. 0 when there is one group.
double FormulaBytes(const Topology& topology, BenchKind kind, int64_t bytes);

// nccl-tests' factor from algorithm to bus bandwidth.
double BusFactor(BenchKind kind, int ranks);

// How the bytes travel between nodes, for reports: "ring", "distance doubling", ….
std::string AlgorithmName(const Topology& topology, BenchKind kind);

}  // namespace strata
