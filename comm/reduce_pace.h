#pragma once

#include <cstdint>
#include <vector>

#include "comm/plan_builder.h"
#include "comm/topology.h"

namespace strata {

// [Note: Pace of a reduce]
// Free to run, ranks make two kinds of trouble for a link. All of them add up what is inside their
// nodes as early as they can, so at the start every processor is busy with chunks whose turn is far
// away while the link waits for the first ones. And a rank that has got ahead of the others sends
// to one that is still receiving from somebody else: two share one link, and a third has nothing.
// So a chunk is handed over inside a node only when the rank's own sends between nodes have come to
// within kLeadBytes of its turn, and sent between nodes only when what the rank receives there has
// come to within kSkewBytes. Both wait for strictly earlier turns, and a chunk's turn is never
// earlier than those of what is added into it, so nothing waits in a circle. That holds where all
// groups that lie in one rotation see the same number of places: see Applies.
class ReducePace {
 public:
  // Whether turns of all ranks can be compared: always with two levels.
  static bool Applies(const Topology& topology);

  // A step of the plan under construction, with the turn of its sender.
  struct Timed {
    int64_t round = 0;
    int64_t chunk = 0;
    int step = 0;
  };
  void HandsOver(const Timed& send) { handed_over_.push_back(send); }  // inside a node
  void Sends(const Timed& send) { sent_.push_back(send); }             // between nodes
  void Receives(const Timed& receive) { received_.push_back(receive); }

  // Makes the steps wait for each other. Once.
  void Apply(int64_t chunk_bytes, PlanBuilder& builder);

 private:
  std::vector<Timed> handed_over_, sent_, received_;
};

}  // namespace strata
