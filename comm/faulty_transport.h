#pragma once

#include <cstdint>
#include <random>

#include "absl/time/time.h"
#include "comm/delaying_transport.h"

namespace strata {

// Makes a good transport bad, as a seed says: sends are late, and some end with Unavailable and
// never arrive.
class FaultyTransport final : public DelayingTransport {
 public:
  struct Options {
    uint64_t seed = 1;
    absl::Duration send_delay = absl::ZeroDuration();  // of each send, up to this
    uint32_t fail_one_in = 0;                          // sends, on average; 0: none fails
  };
  FaultyTransport(Loop& loop, Transport& inner, const Options& options)
      : DelayingTransport(loop, inner), options_(options), random_(options.seed) {}

 private:
  absl::StatusOr<absl::Time> Fate(Rank peer, int64_t bytes) override;

  const Options options_;
  std::mt19937_64 random_;
};

}  // namespace strata
