#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/types.h"

namespace strata {

enum class BenchKind { kAllGather, kReduceScatter, kAllReduce, kBroadcast, kAllToAll, kSendRecv };

// As on the command line: "all_gather".
const char* Name(BenchKind kind);

// What `strata bench` measures. Equal on all ranks, but for where rank 0 writes.
struct BenchOptions {
  BenchKind kind = BenchKind::kAllGather;
  std::vector<int64_t> sizes;  // bytes, ascending as given
  DType dtype = DType::kF32;
  int64_t warmup = 2;
  int64_t iterations = 0;  // 0: as many as fit into `duration`, at least kLeastIterations
  absl::Duration duration = absl::Seconds(2);
  bool check = true;  // data of one operation of each size
  std::string transport = "ucx";
  std::string interface;                        // empty: as WorldOptions has it
  int64_t chunk_bytes = 0;                      // largest transfer
  int64_t credit_bytes = 0;                     // in flight between nodes, per rank; 0: the default
  int64_t rate = 0;                             // of a node's link in bits per second; 0: not known
  absl::Duration deadline = absl::Seconds(60);  // of one operation
  double min_percent_of_bound = 0;
  int64_t min_bandwidth = 0;  // bits per second of bus bandwidth
  std::string json, csv;      // empty: not written
};

inline constexpr int64_t kLeastIterations = 5;
inline constexpr int64_t kMostIterations = 2000;

// The sizes of "64KiB..256MiB" (each `factor` times the one before, the end included if it is hit)
// or of "8MiB,64MiB". InvalidArgument names what is wrong.
absl::StatusOr<std::vector<int64_t>> ParseSizes(const std::string& text, int factor);

// InvalidArgument names the option and what to change.
absl::Status CheckBench(const BenchOptions& options);

// A JSON object of strings with everything that must be equal on all ranks.
std::string BenchFingerprint(const BenchOptions& options);

}  // namespace strata
