#include "tests/support/plan_interpreter.h"

#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "tests/support/reference_arithmetic.h"

namespace strata {
namespace {

// One buffer of one rank. Knows how often each byte was written: 0, 1 or more often (2).
struct Memory {
  Bytes bytes;
  std::vector<uint8_t> writes;

  explicit Memory(int64_t size) : bytes(size, std::byte{0xff}), writes(size, 0) {}
};

class Interpreter {
 public:
  Interpreter(std::span<const Plan> plans, const std::vector<Bytes>& inputs, uint64_t seed)
      : plans_(plans), random_(seed), waits_(plans.size()), next_(plans.size()) {
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      const Plan& plan = plans[rank];
      memory_.push_back(
          {Memory(plan.input_bytes), Memory(plan.output_bytes), Memory(plan.scratch_bytes)});
      memory_[rank][0].bytes = inputs[rank];
      memory_[rank][0].writes.assign(inputs[rank].size(), 1);
      waits_[rank].resize(plan.steps.size());
      next_[rank].resize(plan.steps.size());
      for (size_t i = 0; i < plan.steps.size(); ++i) {
        waits_[rank][i] = plan.steps[i].dependency_count;
        for (int d : plan.DependenciesOf(plan.steps[i])) {
          next_[rank][d].push_back(static_cast<int>(i));
        }
      }
    }
  }

  absl::StatusOr<std::vector<Bytes>> Run() {
    size_t left = 0;
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      left += plans_[rank].steps.size();
      for (size_t i = 0; i < plans_[rank].steps.size(); ++i) {
        if (waits_[rank][i] == 0) ready_.push_back({static_cast<int>(rank), static_cast<int>(i)});
      }
    }
    while (!ready_.empty()) {
      const size_t pick = random_() % ready_.size();
      const auto [rank, index] = ready_[pick];
      ready_[pick] = ready_.back();
      ready_.pop_back();
      STRATA_ASSIGN_OR_RETURN(const int ended, Start(rank, index));
      left -= ended;
    }
    if (left > 0) return absl::InternalError(absl::StrCat(left, " steps never became ready"));
    std::vector<Bytes> outputs;
    for (auto& buffers : memory_) {
      for (size_t i = 0; i < buffers[1].writes.size(); ++i) {
        if (buffers[1].writes[i] != 1) {
          return absl::InternalError(absl::StrCat(
              "rank ", outputs.size(), " output byte ", i,
              buffers[1].writes[i] == 0 ? " was never written" : " was written more than once"));
        }
      }
      outputs.push_back(std::move(buffers[1].bytes));
    }
    return outputs;
  }

 private:
  using StepId = std::pair<int, int>;
  using Key = std::tuple<int, int, uint32_t>;  // from, to, message

  // Runs a step whose dependencies have ended; returns how many steps ended by it. A transfer ends
  // when both its ends have started.
  absl::StatusOr<int> Start(int rank, int index) {
    const Step& step = plans_[rank].steps[index];
    if (step.op == Op::kCopy || step.op == Op::kReduce) {
      STRATA_RETURN_IF_ERROR(Compute(rank, step));
      End(rank, index);
      return 1;
    }
    const bool send = step.op == Op::kSend;
    const int peer = Index(step.peer);
    const Key key = send ? Key{rank, peer, step.message} : Key{peer, rank, step.message};
    auto& mine = send ? sends_ : recvs_;
    auto& other = send ? recvs_ : sends_;
    if (mine.contains(key)) {
      return absl::InternalError(absl::StrCat("rank ", rank, " step ", index, ": message ",
                                              step.message, " is used twice"));
    }
    const auto match = other.find(key);
    if (match == other.end()) {
      mine[key] = {rank, index};
      return 0;
    }
    const StepId from = send ? StepId{rank, index} : match->second;
    const StepId to = send ? match->second : StepId{rank, index};
    const Step& source = plans_[from.first].steps[from.second];
    const Step& target = plans_[to.first].steps[to.second];
    if (source.src.bytes != target.dst.bytes || source.level != target.level) {
      return absl::InternalError(
          absl::StrCat("message of ", source.src.bytes, " bytes received as ", target.dst.bytes));
    }
    STRATA_ASSIGN_OR_RETURN(const std::byte* src, Read(from.first, source.src));
    STRATA_ASSIGN_OR_RETURN(std::byte * dst, Write(to.first, target.dst));
    std::memcpy(dst, src, source.src.bytes);
    End(from.first, from.second);
    End(to.first, to.second);
    return 2;
  }

  absl::Status Compute(int rank, const Step& step) {
    STRATA_ASSIGN_OR_RETURN(const std::byte* src, Read(rank, step.src));
    if (step.op == Op::kCopy) {
      STRATA_ASSIGN_OR_RETURN(std::byte * copy, Write(rank, step.dst));
      std::memcpy(copy, src, step.src.bytes);
      return absl::OkStatus();
    }
    STRATA_ASSIGN_OR_RETURN(const std::byte* other, Read(rank, step.other));
    STRATA_ASSIGN_OR_RETURN(std::byte * dst, Write(rank, step.dst));
    const DType dtype = plans_[rank].dtype;
    for (int64_t at = 0; at < step.dst.bytes; at += SizeOf(dtype)) {
      StoreReference(
          dtype, dst + at,
          AddReference(dtype, LoadReference(dtype, src + at), LoadReference(dtype, other + at)));
    }
    return absl::OkStatus();
  }

  void End(int rank, int index) {
    for (int next : next_[rank][index]) {
      if (--waits_[rank][next] == 0) ready_.push_back({rank, next});
    }
  }

  absl::StatusOr<const std::byte*> Read(int rank, const Slice& slice) {
    const Memory& memory = memory_[rank][static_cast<int>(slice.buffer)];
    if (std::memchr(memory.writes.data() + slice.offset, 0, slice.bytes) != nullptr) {
      return absl::InternalError(absl::StrCat("rank ", rank, " reads bytes that nobody wrote"));
    }
    return memory.bytes.data() + slice.offset;
  }

  absl::StatusOr<std::byte*> Write(int rank, const Slice& slice) {
    if (slice.buffer == BufferId::kInput) {
      return absl::InternalError(absl::StrCat("rank ", rank, " writes its input"));
    }
    Memory& memory = memory_[rank][static_cast<int>(slice.buffer)];
    for (int64_t i = slice.offset; i < slice.offset + slice.bytes; ++i) {
      memory.writes[i] = memory.writes[i] == 0 ? 1 : 2;
    }
    return memory.bytes.data() + slice.offset;
  }

  std::span<const Plan> plans_;
  std::mt19937_64 random_;
  std::vector<std::vector<Memory>> memory_;          // [rank][buffer]
  std::vector<std::vector<int>> waits_;              // [rank][step] dependencies that run
  std::vector<std::vector<std::vector<int>>> next_;  // [rank][step]
  std::vector<StepId> ready_;
  std::map<Key, StepId> sends_, recvs_;
};

}  // namespace

absl::StatusOr<std::vector<Bytes>> InterpretPlans(std::span<const Plan> plans,
                                                  const std::vector<Bytes>& inputs, uint64_t seed) {
  return Interpreter(plans, inputs, seed).Run();
}

}  // namespace strata
