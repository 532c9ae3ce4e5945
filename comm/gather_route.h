#pragma once

#include <span>
#include <vector>

#include "comm/topology.h"

namespace strata {

// One rank passes a stripe on to another.
struct Transfer {
  Rank from{};
  Rank to{};
  int level = 0;
  int round = 0;  // transfers that the stripe has behind it
};

// The ranks that have some bytes at first, and those that need them. Both ascending.
struct Spread {
  std::span<const Rank> have;
  std::span<const Rank> need;
};

// Into how many stripes bytes are cut so that all ranks of a group that have them send at once.
int StripeCount(const Topology& topology, const Spread& spread);

// [Note: How a stripe spreads]
// From the outermost level inwards: child groups that need the stripe and do not have it get it
// along a ring that begins at each group that has it, every group from the one before. It enters at
// a rank that needs it: the one with the matching local index if that one does. Inside the
// innermost groups the rank that has it sends to each that needs it. So every group is entered
// once, no rank gets what it does not need, and the stripes of a group's ranks use all of its links
// at once.
std::vector<Transfer> RouteStripe(const Topology& topology, const Spread& spread, int stripe,
                                  int stripe_count);

}  // namespace strata
