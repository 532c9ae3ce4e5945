#include "cli/bench/options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"
#include "runtime/config/quantity.h"

namespace strata {
namespace {

absl::StatusOr<int64_t> PositiveSize(const std::string& text) {
  STRATA_ASSIGN_OR_RETURN(const int64_t bytes, ParseSize(text));
  if (bytes > 0) return bytes;
  return absl::InvalidArgumentError(absl::StrCat("size \"", text, "\" is not more than 0"));
}

absl::Status CheckAtLeast(const char* option, double value, double least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " is ", value, ", less than ", least));
}

}  // namespace

const char* Name(BenchKind kind) {
  switch (kind) {
    case BenchKind::kAllGather:
      return "all_gather";
    case BenchKind::kReduceScatter:
      return "reduce_scatter";
    case BenchKind::kAllReduce:
      return "all_reduce";
    case BenchKind::kBroadcast:
      return "broadcast";
    case BenchKind::kAllToAll:
      return "all_to_all";
    case BenchKind::kSendRecv:
      return "sendrecv";
  }
  return "";
}

absl::StatusOr<std::vector<int64_t>> ParseSizes(const std::string& text, int factor) {
  std::vector<int64_t> sizes;
  const std::vector<std::string> ends = absl::StrSplit(text, "..");
  if (ends.size() == 2) {
    STRATA_ASSIGN_OR_RETURN(const int64_t first, PositiveSize(ends[0]));
    STRATA_ASSIGN_OR_RETURN(const int64_t last, PositiveSize(ends[1]));
    if (first > last) {
      return absl::InvalidArgumentError(
          absl::StrCat("sizes \"", text, "\" end below their beginning"));
    }
    if (factor < 2) {
      return absl::InvalidArgumentError(absl::StrCat("--factor is ", factor, ", less than 2"));
    }
    for (int64_t size = first; size <= last; size *= factor) {
      sizes.push_back(size);
      if (size > last / factor) break;
    }
    return sizes;
  }
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(text, ','))) {
    STRATA_ASSIGN_OR_RETURN(const int64_t size, PositiveSize(item));
    sizes.push_back(size);
  }
  return sizes;
}

absl::Status CheckBench(const BenchOptions& options) {
  for (const int64_t size : options.sizes) {
    if (size % SizeOf(options.dtype) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--sizes: ", size, " bytes are not a whole number of ", Name(options.dtype), " elements"));
  }
  STRATA_RETURN_IF_ERROR(CheckAtLeast("--warmup", static_cast<double>(options.warmup), 1));
  STRATA_RETURN_IF_ERROR(CheckAtLeast("--iterations", static_cast<double>(options.iterations), 0));
  STRATA_RETURN_IF_ERROR(CheckAtLeast("--chunk", static_cast<double>(options.chunk_bytes), 4));
  if (options.iterations > kMostIterations) {
    return absl::InvalidArgumentError(
        absl::StrCat("--iterations is ", options.iterations, ", more than ", kMostIterations));
  }
  if (options.chunk_bytes % 4 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--chunk is ", options.chunk_bytes, " bytes, not a multiple of 4"));
  }
  if (options.duration <= absl::ZeroDuration() || options.deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--duration and --deadline must be more than 0");
  }
  if (options.min_percent_of_bound > 0 && options.rate == 0) {
    return absl::InvalidArgumentError(
        "--min-percent-of-bound needs --rate, the rate of a node's link, as in --rate 1gbit");
  }
  return absl::OkStatus();
}

std::string BenchFingerprint(const BenchOptions& options) {
  return nlohmann::json{{"operation", Name(options.kind)},
                        {"--sizes", absl::StrJoin(options.sizes, ",")},
                        {"--dtype", Name(options.dtype)},
                        {"--warmup", absl::StrCat(options.warmup)},
                        {"--iterations", absl::StrCat(options.iterations)},
                        {"--duration", absl::FormatDuration(options.duration)},
                        {"--check", absl::StrCat(options.check)},
                        {"--transport", options.transport},
                        {"--chunk", absl::StrCat(options.chunk_bytes)},
                        {"--rate", absl::StrCat(options.rate)},
                        {"--min-percent-of-bound", absl::StrCat(options.min_percent_of_bound)},
                        {"--min-bandwidth", absl::StrCat(options.min_bandwidth)}}
      .dump();
}

}  // namespace strata
