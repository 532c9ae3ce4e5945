#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "comm/delaying_transport.h"
#include "comm/topology.h"

namespace strata {

// Makes a fast transport look like a slow link: sends go out one after the other at the link's rate
// and arrive one latency later. For machines where the kernel cannot shape traffic.
class ShapedTransport final : public DelayingTransport {
 public:
  ShapedTransport(Loop& loop, Transport& inner, const Link& link)
      : DelayingTransport(loop, inner), link_(link) {}

 private:
  absl::StatusOr<absl::Time> Fate(Rank peer, int64_t bytes) override;

  const Link link_;
  absl::Time free_at_ = absl::InfinitePast();
};

}  // namespace strata
