#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/types.h"

namespace strata {

// Spans of one rank for a timeline that chrome://tracing and Perfetto open. A ring of fixed size:
// when it is full the oldest spans go, nothing allocates. One thread.
class Trace {
 public:
  enum class Track : uint8_t { kApplication, kGatherLane, kReduceLane };
  enum class Kind : uint8_t {
    kCompute,
    kAcquire,
    kEndStep,
    kFlush,
    kGather,
    kPublish,
    kReduce,
    kBoundary,
    kOptimizer,
    kExchange,
  };
  static constexpr UnitId kNoUnit{-1};

  // `capacity` spans; 0 records nothing.
  explicit Trace(int64_t capacity) { spans_.reserve(static_cast<size_t>(capacity)); }

  void Add(Track track, Kind kind, UnitId unit, absl::Time begin, absl::Time end);

  // Writes the file, whole or not at all (a temporary beside it is renamed), unless `path` is there
  // and no regular file. `unit_names` by UnitId; `process` is the rank, shown as "rank 3".
  absl::Status Write(const std::string& path, int process,
                     const std::vector<std::string>& unit_names) const;

 private:
  struct Span {
    Track track{};
    Kind kind{};
    UnitId unit{};
    absl::Time begin, end;
  };
  std::vector<Span> spans_;
  size_t next_ = 0;  // where the next span goes once all are in use
};

}  // namespace strata
