#include <algorithm>
#include <utility>

#include "comm/plan.h"
#include "comm/plan_builder.h"
#include "comm/plan_options.h"
#include "comm/segments.h"
#include "kernels/status.h"

// Plans in which each byte goes straight from the rank that has it to the one that gets it.
namespace strata {
namespace {

class DirectPlanner {
 public:
  DirectPlanner(const Topology& topology, Rank self, int64_t chunk_bytes, Plan shell)
      : topology_(topology),
        self_(self),
        chunk_bytes_(ChunkThatFitsTags(chunk_bytes, shell.input_bytes, 0)),
        builder_(std::move(shell), chunk_bytes_) {}

  // Input `range` goes to `peer`, another rank; in the given round all ranks have different peers.
  void Send(Rank peer, ByteRange range, int64_t round) {
    const int level = topology_.LevelBetween(self_, peer);
    ForChunks(range, [&](ByteRange chunk, int64_t number) {
      builder_.Send(peer, level, static_cast<uint32_t>(number),
                    {BufferId::kInput, chunk.begin, chunk.size()}, {round, number, 0}, {});
    });
  }

  // Of the input of `peer`, `range` comes to `output_offset`.
  void Receive(Rank peer, ByteRange range, int64_t output_offset) {
    const int level = topology_.LevelBetween(self_, peer);
    ForChunks(range, [&](ByteRange chunk, int64_t number) {
      builder_.Recv(peer, level, static_cast<uint32_t>(number),
                    {BufferId::kOutput, output_offset + chunk.begin - range.begin, chunk.size()});
    });
  }

  void Keep(ByteRange range, int64_t output_offset) {
    ForChunks(range, [&](ByteRange chunk, int64_t number) {
      builder_.Copy({BufferId::kInput, chunk.begin, chunk.size()},
                    {BufferId::kOutput, output_offset + chunk.begin - range.begin, chunk.size()},
                    {0, number, 1});
    });
  }

  Plan Finish() && { return std::move(builder_).Finish(); }

 private:
  template <typename Visit>
  void ForChunks(ByteRange range, Visit visit) {
    if (range.size() == 0) return;
    for (int64_t i = 0; i < ChunkCount(range, chunk_bytes_); ++i) {
      visit(Chunk(range, chunk_bytes_, i), i);
    }
  }

  const Topology& topology_;
  const Rank self_;
  const int64_t chunk_bytes_;
  PlanBuilder builder_;
};

// Which comes first of the ranks to send to: groups in rotation, ranks within them in rotation.
int64_t Round(const Topology& topology, Rank self, Rank peer) {
  int64_t round = 0;
  for (int level = topology.level_count() - 1; level >= 0; --level) {
    const auto children = [&](Rank rank) {
      return static_cast<int>(topology.Children(level, topology.Group(rank, level)).size());
    };
    const int count = std::max(children(self), children(peer));
    const int places = topology.ChildIndex(peer, level) - topology.ChildIndex(self, level);
    round = round * count + (places + count) % count;
  }
  return round;
}

}  // namespace

absl::StatusOr<Plan> PlanAllToAll(const Topology& topology, int64_t bytes, Rank self,
                                  const PlanOptions& options) {
  STRATA_RETURN_IF_ERROR(CheckPlanArguments(topology, bytes, self, options));
  const int64_t element_bytes = SizeOf(options.dtype);
  const auto part = [&](Rank rank) {
    const auto bound = [&](int64_t i) {
      return bytes / element_bytes * i / topology.size() * element_bytes;
    };
    return ByteRange{bound(Index(rank)), bound(Index(rank) + 1)};
  };
  const ByteRange own = part(self);
  DirectPlanner planner(topology, self, options.chunk_bytes,
                        {.name = "all-to-all",
                         .dtype = options.dtype,
                         .input_bytes = bytes,
                         .output_bytes = own.size() * topology.size()});
  for (int i = 0; i < topology.size(); ++i) {
    const Rank peer{i};
    if (peer == self) {
      planner.Keep(own, i * own.size());
      continue;
    }
    planner.Receive(peer, own, i * own.size());
    planner.Send(peer, part(peer), Round(topology, self, peer));
  }
  return std::move(planner).Finish();
}

absl::StatusOr<Plan> PlanShift(const Topology& topology, int64_t bytes, int places, Rank self,
                               const PlanOptions& options) {
  STRATA_RETURN_IF_ERROR(CheckPlanArguments(topology, bytes, self, options));
  const int size = topology.size();
  const int forward = (places % size + size) % size;
  DirectPlanner planner(
      topology, self, options.chunk_bytes,
      {.name = "shift", .dtype = options.dtype, .input_bytes = bytes, .output_bytes = bytes});
  if (forward == 0) {
    planner.Keep({0, bytes}, 0);
  } else {
    planner.Receive(Rank{(Index(self) + size - forward) % size}, {0, bytes}, 0);
    planner.Send(Rank{(Index(self) + forward) % size}, {0, bytes}, 0);
  }
  return std::move(planner).Finish();
}

}  // namespace strata
