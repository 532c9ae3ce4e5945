#include "comm/shaped_transport.h"

#include <algorithm>

namespace strata {

absl::StatusOr<absl::Time> ShapedTransport::Fate(Rank, int64_t bytes) {
  absl::Duration on_wire = absl::ZeroDuration();
  if (link_.bytes_per_second > 0) {
    on_wire =
        absl::Seconds(static_cast<double>(bytes) / static_cast<double>(link_.bytes_per_second));
  }
  free_at_ = std::max(free_at_, loop().Now()) + on_wire;
  return free_at_ + link_.latency;
}

}  // namespace strata
