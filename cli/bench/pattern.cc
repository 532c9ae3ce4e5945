#include "cli/bench/pattern.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/bf16.h"

namespace strata {
namespace {

constexpr int64_t kPieceElements = 16 * 1024;

// bf16 has every integer up to 256: at most this many ranks give values of at most 4 to one sum.
constexpr int kMostGivers = 64;

// Elements of one rank's data, or sums over all ranks, one after the other.
struct Run {
  enum class Kind { kMoved, kGiven, kSum };
  Kind kind = Kind::kMoved;
  int rank = 0;       // whose, unless it is a sum
  int64_t first = 0;  // element
  int64_t count = 0;
};

uint16_t MovedWord(int rank, int64_t word) {
  const uint32_t mixed = static_cast<uint32_t>(word) * 2654435761u +
                         static_cast<uint32_t>(word >> 32) * 97u +
                         static_cast<uint32_t>(rank) * 40503u + 12345u;
  return static_cast<uint16_t>(mixed >> 16);
}

// Values to add, and their sums.
class Addends {
 public:
  Addends(DType dtype, int ranks)
      : stride_(dtype == DType::kBf16 ? (ranks + kMostGivers - 1) / kMostGivers : 1),
        own_(dtype == DType::kBf16 ? 2 : 64),
        place_(dtype == DType::kBf16 ? 3 : 61),
        counts_(stride_),
        sums_(stride_) {
    for (int rank = 0; rank < ranks; ++rank) {
      const int residue = (stride_ - rank % stride_) % stride_;
      ++counts_[residue];
      sums_[residue] += Own(rank);
    }
  }

  // Rank r gives to the elements e with r + e a multiple of the stride.
  int Given(int rank, int64_t element) const {
    return (rank + element) % stride_ == 0 ? Own(rank) + Place(element) : 0;
  }
  int Sum(int64_t element) const {
    const int64_t residue = element % stride_;
    return sums_[residue] + counts_[residue] * Place(element);
  }

 private:
  int Own(int rank) const { return 1 + rank % own_; }
  int Place(int64_t element) const { return static_cast<int>(element * 7 % place_); }

  const int stride_, own_, place_;
  std::vector<int> counts_, sums_;  // by residue of the element
};

class Pattern {
 public:
  Pattern(const Operation& operation, const Topology& topology)
      : operation_(operation),
        topology_(topology),
        element_bytes_(SizeOf(operation.dtype)),
        addends_(operation.dtype, topology.size()) {}

  std::vector<Run> InputRuns(Rank self) const {
    switch (operation_.kind) {
      case BenchKind::kAllGather:
        return OwnedRuns(operation_.shards->reduced, self, Run::Kind::kMoved);
      case BenchKind::kReduceScatter:
      case BenchKind::kAllReduce:
        return {{Run::Kind::kGiven, Index(self), 0, Elements(operation_.bytes)}};
      case BenchKind::kBroadcast:
      case BenchKind::kAllToAll:
      case BenchKind::kSendRecv:
        return {{Run::Kind::kMoved, Index(self), 0, Elements(operation_.input_bytes())}};
    }
    return {};
  }

  std::vector<Run> OutputRuns(Rank self) const {
    const int ranks = topology_.size();
    const int64_t elements = Elements(operation_.bytes);
    switch (operation_.kind) {
      case BenchKind::kAllGather:
      case BenchKind::kBroadcast:
        return {{Run::Kind::kMoved, 0, 0, elements}};
      case BenchKind::kReduceScatter:
        return OwnedRuns(operation_.shards->reduced, self, Run::Kind::kSum);
      case BenchKind::kAllReduce:
        return {{Run::Kind::kSum, 0, 0, elements}};
      case BenchKind::kAllToAll: {
        std::vector<Run> runs;
        const int64_t first = elements * Index(self) / ranks;
        const int64_t end = elements * (Index(self) + 1) / ranks;
        for (int rank = 0; rank < ranks; ++rank) {
          runs.push_back({Run::Kind::kMoved, rank, first, end - first});
        }
        return runs;
      }
      case BenchKind::kSendRecv: {
        const int from = (Index(self) + ranks - SendRecvPlaces(topology_) % ranks) % ranks;
        return {{Run::Kind::kMoved, from, 0, elements}};
      }
    }
    return {};
  }

  // Calls `visit(offset, data)` for the bytes of `runs`, packed, piece by piece.
  template <typename Visit>
  void ForPieces(const std::vector<Run>& runs, Visit visit) {
    std::vector<std::byte> piece(kPieceElements * element_bytes_);
    int64_t offset = 0;
    for (const Run& run : runs) {
      for (int64_t done = 0; done < run.count; done += kPieceElements) {
        const int64_t count = std::min(kPieceElements, run.count - done);
        Generate({run.kind, run.rank, run.first + done, count}, piece.data());
        visit(offset, std::span<const std::byte>(piece.data(), count * element_bytes_));
        offset += count * element_bytes_;
      }
    }
  }

 private:
  int64_t Elements(int64_t bytes) const { return bytes / element_bytes_; }

  // The data of an all-gather is one unit, whoever holds it.
  static std::vector<Run> OwnedRuns(const ShardLayout& state, Rank self, Run::Kind kind) {
    std::vector<Run> runs;
    for (const ElementRange& range : state.Owned(self)) {
      runs.push_back({kind, 0, range.begin, range.size()});
    }
    return runs;
  }

  void Generate(const Run& run, std::byte* out) const {
    if (run.kind == Run::Kind::kMoved) {
      const int64_t words = element_bytes_ / 2;
      for (int64_t i = 0; i < run.count * words; ++i) {
        const uint16_t word = MovedWord(run.rank, run.first * words + i);
        std::memcpy(out + i * 2, &word, 2);
      }
      return;
    }
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t element = run.first + i;
      const auto value = static_cast<float>(
          run.kind == Run::Kind::kSum ? addends_.Sum(element) : addends_.Given(run.rank, element));
      if (operation_.dtype == DType::kF32) {
        std::memcpy(out + i * 4, &value, 4);
      } else {
        const uint16_t bits = F32ToBf16(value);
        std::memcpy(out + i * 2, &bits, 2);
      }
    }
  }

  const Operation& operation_;
  const Topology& topology_;
  const int64_t element_bytes_;
  const Addends addends_;
};

}  // namespace

void FillInput(const Operation& operation, const Topology& topology, Rank self,
               std::span<std::byte> input) {
  Pattern pattern(operation, topology);
  pattern.ForPieces(pattern.InputRuns(self), [&](int64_t offset, std::span<const std::byte> data) {
    std::memcpy(input.data() + offset, data.data(), data.size());
  });
}

absl::Status VerifyOutput(const Operation& operation, const Topology& topology, Rank self,
                          std::span<const std::byte> output) {
  const int64_t element_bytes = SizeOf(operation.dtype);
  int64_t wrong = 0, first = -1, seen = 0;
  Pattern pattern(operation, topology);
  pattern.ForPieces(pattern.OutputRuns(self), [&](int64_t offset, std::span<const std::byte> data) {
    seen += static_cast<int64_t>(data.size());
    if (std::memcmp(output.data() + offset, data.data(), data.size()) == 0) return;
    for (size_t i = 0; i < data.size(); i += element_bytes) {
      if (std::memcmp(output.data() + offset + i, data.data() + i, element_bytes) == 0) continue;
      if (wrong++ == 0) first = (offset + static_cast<int64_t>(i)) / element_bytes;
    }
  });
  if (wrong == 0 && seen == static_cast<int64_t>(output.size())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("rank ", Index(self), " got ", wrong,
                                          " wrong elements of ", output.size() / element_bytes,
                                          ", the first at ", first));
}

}  // namespace strata
