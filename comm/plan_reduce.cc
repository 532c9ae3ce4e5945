#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/plan.h"
#include "comm/plan_builder.h"
#include "comm/plan_options.h"
#include "comm/reduce_pace.h"
#include "comm/reduce_tree.h"
#include "comm/segments.h"
#include "kernels/status.h"

namespace strata {
namespace {

// This rank's part in the sum of one segment for one destination.
struct Part {
  ReduceTree tree;
  Rank destination{};
  ByteRange range;
  int64_t first_message = 0;
  int64_t input_offset = 0;
  int64_t output_offset = -1;  // -1: another rank is the destination
  int64_t round = 0;           // turns of the part's steps
  int64_t rotation = 0;
};

// Which comes first of the sums for the child groups of a level, seen from one of them: those for
// others in rotation, so that everyone sends to a different one at a time, its own last. With
// distance doubling: those that must travel furthest, that is, whose distance has low bits set.
int64_t RotationTurn(const Topology& topology, int level, Rank self, Rank destination) {
  const auto size = [&](Rank rank) {
    return static_cast<int>(topology.Children(level, topology.Group(rank, level)).size());
  };
  const int count = std::max(size(self), size(destination));
  const int own = topology.ChildIndex(self, level), other = topology.ChildIndex(destination, level);
  if (level > 0 && count > 2 && (count & (count - 1)) == 0) {
    int64_t reversed = 0;
    for (int bit = 1; bit < count; bit *= 2)
      reversed = reversed * 2 + ((own ^ other) & bit ? 1 : 0);
    return count - 1 - reversed;
  }
  return (other - own + count - 1) % count;
}

// Where the value of one node of the tree lies at this rank, and the step that puts it there.
struct Value {
  Slice slice;
  int step = -1;  // -1: the input, there from the start
};

// When a rank's turn to send in the sum for one destination comes: by place of the destination's
// group in rotation, outermost level first.
int64_t Round(const Topology& topology, LevelSet over, Rank self, Rank destination) {
  int64_t round = 0;
  for (int level = topology.level_count() - 1; level > 0; --level) {
    if (over.Has(level)) {
      round = round * topology.size() + RotationTurn(topology, level, self, destination);
    }
  }
  return round;
}

class ReducePlanner {
 public:
  ReducePlanner(const Topology& topology, LevelSet over, Rank self, int64_t chunk_bytes, Plan shell)
      : topology_(topology),
        over_(over),
        self_(self),
        chunk_bytes_(chunk_bytes),
        builder_(std::move(shell), chunk_bytes) {}

  void Add(const Part& part) {
    for (int64_t i = 0; i < ChunkCount(part.range, chunk_bytes_); ++i) AddChunk(part, i);
  }

  Plan Finish() && {
    if (ReducePace::Applies(topology_)) pace_.Apply(chunk_bytes_, builder_);
    return std::move(builder_).Finish();
  }

 private:
  void AddChunk(const Part& part, int64_t number) {
    const ByteRange chunk = Chunk(part.range, chunk_bytes_, number);
    const int64_t into = chunk.begin - part.range.begin;
    const auto message = static_cast<uint32_t>(part.first_message + number);
    const Turn turn{part.round, number, part.rotation};
    const Slice output{BufferId::kOutput, part.output_offset + into, chunk.size()};

    std::vector<Value> values(part.tree.size());
    for (size_t i = 0; i < part.tree.size(); ++i) {
      const ReduceNode& node = part.tree[i];
      const bool last = node.parent < 0;
      const bool here = node.at == self_;
      const bool used_here = !last && part.tree[node.parent].at == self_;
      if (!here && !used_here) continue;
      const int level = last ? 0 : topology_.LevelBetween(node.at, part.tree[node.parent].at);
      if (!here) {
        const Slice slot = builder_.AddScratch(chunk.size());
        values[i] = {slot, builder_.Recv(node.at, level, message, slot)};
        if (level > 0) {
          const int64_t round = Round(topology_, over_, node.at, part.destination);
          pace_.Receives({round, number, values[i].step});
        }
        continue;
      }
      if (node.left < 0) {
        values[i] = {{BufferId::kInput, part.input_offset + into, chunk.size()}, -1};
        if (last) builder_.Copy(values[i].slice, output, turn);
      } else {
        values[i] = Sum(values[node.left], values[node.right], last ? &output : nullptr, turn);
      }
      if (last || used_here) continue;
      const int send = builder_.Send(part.tree[node.parent].at, level, message, values[i].slice,
                                     turn, After({values[i]}));
      if (level > 0) {
        pace_.Sends({part.round, number, send});
      } else {
        pace_.HandsOver({part.round, number, send});
      }
    }
  }

  // Partial sums take the place of an operand that was received: at most one operand is this rank's
  // own input.
  Value Sum(const Value& left, const Value& right, const Slice* output, Turn turn) {
    const bool left_is_input = left.slice.buffer == BufferId::kInput;
    const Slice dst = output != nullptr ? *output : (left_is_input ? right : left).slice;
    return {dst, builder_.Reduce(left.slice, right.slice, dst, turn, After({left, right}))};
  }

  static std::vector<int> After(std::initializer_list<Value> values) {
    std::vector<int> steps;
    for (const Value& value : values) {
      if (value.step >= 0) steps.push_back(value.step);
    }
    return steps;
  }

  const Topology& topology_;
  const LevelSet over_;
  const Rank self_;
  const int64_t chunk_bytes_;
  PlanBuilder builder_;
  ReducePace pace_;
};

absl::Status CheckLevels(const Topology& topology, const ShardLayout& from, const ShardLayout& to,
                         LevelSet over) {
  for (int level = 0; level < topology.level_count(); ++level) {
    const bool should = from.sharded().Has(level) || over.Has(level);
    if (should != to.sharded().Has(level) || (from.sharded().Has(level) && over.Has(level))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "level \"", topology.levels()[level].name,
          "\": values are added over the levels that `to` is sharded over and `from` is not, ",
          "and over no others"));
    }
  }
  return absl::OkStatus();
}

bool TakesPart(const ReduceTree& tree, Rank self) {
  return std::any_of(tree.begin(), tree.end(),
                     [&](const ReduceNode& node) { return node.at == self; });
}

}  // namespace

absl::StatusOr<Plan> PlanReduce(const Topology& topology, const ShardLayout& from,
                                const ShardLayout& to, LevelSet over, Rank self,
                                const PlanOptions& options) {
  STRATA_RETURN_IF_ERROR(CheckPlanArguments(topology, from, to, self, options));
  STRATA_RETURN_IF_ERROR(CheckLevels(topology, from, to, over));
  const int64_t element_bytes = SizeOf(options.dtype);
  const std::vector<Segment> segments = CommonSegments(from, to, topology.size());
  const int64_t chunk_bytes = ChunkThatFitsTags(
      options.chunk_bytes, from.elements() * element_bytes, static_cast<int64_t>(segments.size()));
  Plan shell{.name = "reduce",
             .dtype = options.dtype,
             .input_bytes = from.OwnedElements(self) * element_bytes,
             .output_bytes = to.OwnedElements(self) * element_bytes};
  ReducePlanner planner(topology, over, self, chunk_bytes, std::move(shell));
  int64_t messages = 0;
  for (const Segment& segment : segments) {
    const ByteRange range = InBytes(segment.range, element_bytes);
    for (Rank destination : segment.to) {
      if (!std::binary_search(segment.from.begin(), segment.from.end(), destination)) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", Index(destination),
                                                       " ends with element ", segment.range.begin,
                                                       " but gives no value for it"));
      }
      Part part{MakeReduceTree(topology, {segment.from, over, from.sharded(), destination}),
                destination, range, messages};
      if (!TakesPart(part.tree, self)) continue;
      part.input_offset = from.PackedOffset(self, segment.range.begin) * element_bytes;
      if (destination == self) {
        part.output_offset = to.PackedOffset(self, segment.range.begin) * element_bytes;
      }
      part.round = Round(topology, over, self, destination);
      if (over.Has(0)) part.rotation = RotationTurn(topology, 0, self, destination);
      planner.Add(part);
    }
    messages += ChunkCount(range, chunk_bytes);
  }
  return std::move(planner).Finish();
}

}  // namespace strata
