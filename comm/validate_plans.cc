#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/plan.h"
#include "kernels/status.h"

namespace strata {
namespace {

const char* Name(Op op) {
  switch (op) {
    case Op::kSend:
      return "send";
    case Op::kRecv:
      return "recv";
    case Op::kCopy:
      return "copy";
    case Op::kReduce:
      return "reduce";
  }
  return "?";
}

const char* Name(BufferId buffer) {
  switch (buffer) {
    case BufferId::kInput:
      return "input";
    case BufferId::kOutput:
      return "output";
    case BufferId::kScratch:
      return "scratch";
  }
  return "?";
}

// What a step is called in messages.
std::string Where(int rank, const Plan& plan, size_t step) {
  return absl::StrCat("rank ", rank, " step ", step, " (", Name(plan.steps[step].op), ")");
}

int64_t BufferBytes(const Plan& plan, BufferId buffer) {
  if (buffer == BufferId::kInput) return plan.input_bytes;
  return buffer == BufferId::kOutput ? plan.output_bytes : plan.scratch_bytes;
}

absl::Status CheckSlice(const Plan& plan, const Slice& slice, const std::string& where) {
  const int64_t size = BufferBytes(plan, slice.buffer);
  if (slice.offset < 0 || slice.bytes <= 0 || slice.offset + slice.bytes > size) {
    return absl::InternalError(absl::StrCat(where, ": bytes ", slice.offset, " to ",
                                            slice.offset + slice.bytes, " of ", size, " bytes of ",
                                            Name(slice.buffer)));
  }
  return absl::OkStatus();
}

// One step alone: its slices are in bounds and of one size, its dependencies are earlier.
absl::Status CheckStep(const Plan& plan, size_t index, const std::string& where) {
  const Step& step = plan.steps[index];
  if (step.op != Op::kRecv) STRATA_RETURN_IF_ERROR(CheckSlice(plan, step.src, where));
  if (step.op != Op::kSend) {
    STRATA_RETURN_IF_ERROR(CheckSlice(plan, step.dst, where));
    if (step.dst.buffer == BufferId::kInput) {
      return absl::InternalError(absl::StrCat(where, ": writes the input"));
    }
  }
  const bool moves = step.op == Op::kCopy || step.op == Op::kReduce;
  if (moves && step.src.bytes != step.dst.bytes) {
    return absl::InternalError(
        absl::StrCat(where, ": ", step.src.bytes, " bytes into ", step.dst.bytes));
  }
  if (step.op == Op::kReduce) {
    STRATA_RETURN_IF_ERROR(CheckSlice(plan, step.other, where));
    if (step.other.bytes != step.dst.bytes || step.dst.bytes % SizeOf(plan.dtype) != 0) {
      return absl::InternalError(
          absl::StrCat(where, ": adds ", step.other.bytes, " bytes to ", step.dst.bytes));
    }
  }
  for (int dependency : plan.DependenciesOf(step)) {
    if (dependency < 0 || dependency >= static_cast<int>(index)) {
      return absl::InternalError(absl::StrCat(where, ": depends on step ", dependency));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const Plan& plan, int rank) {
  std::vector<Slice> written;
  for (const Step& step : plan.steps) {
    if (step.op != Op::kSend && step.dst.buffer == BufferId::kOutput) written.push_back(step.dst);
  }
  std::sort(written.begin(), written.end(),
            [](const Slice& a, const Slice& b) { return a.offset < b.offset; });
  int64_t end = 0;
  for (const Slice& slice : written) {
    if (slice.offset != end) {
      return absl::InternalError(absl::StrCat(
          "rank ", rank, ": output bytes ", std::min(slice.offset, end), " to ",
          std::max(slice.offset, end), " are written ", slice.offset > end ? "never" : "twice"));
    }
    end += slice.bytes;
  }
  if (end != plan.output_bytes) {
    return absl::InternalError(absl::StrCat("rank ", rank, ": output bytes ", end, " to ",
                                            plan.output_bytes, " are written never"));
  }
  return absl::OkStatus();
}

using StepId = std::pair<int, int>;  // rank, step

// Every send with its receive.
absl::StatusOr<std::map<StepId, StepId>> MatchTransfers(std::span<const Plan> plans) {
  std::map<std::tuple<int, int, uint32_t>, std::vector<StepId>> sends, recvs;  // from, to, message
  const int ranks = static_cast<int>(plans.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < plans[rank].steps.size(); ++i) {
      const Step& step = plans[rank].steps[i];
      if (step.op != Op::kSend && step.op != Op::kRecv) continue;
      const int peer = Index(step.peer);
      if (peer < 0 || peer >= ranks || peer == rank) {
        return absl::InternalError(absl::StrCat(Where(rank, plans[rank], i), ": peer ", peer));
      }
      const StepId id{rank, static_cast<int>(i)};
      if (step.op == Op::kSend) sends[{rank, peer, step.message}].push_back(id);
      if (step.op == Op::kRecv) recvs[{peer, rank, step.message}].push_back(id);
    }
  }
  std::map<StepId, StepId> matches;
  const auto unmatched = [&](const auto& ends, const auto& others) -> absl::Status {
    for (const auto& [key, ids] : ends) {
      const auto& [rank, step] = ids.front();
      const auto other = others.find(key);
      if (ids.size() == 1 && other != others.end() && other->second.size() == 1) continue;
      return absl::InternalError(absl::StrCat(
          Where(rank, plans[rank], step), ": message ", std::get<2>(key), " with rank ",
          Index(plans[rank].steps[step].peer), " has no one matching step"));
    }
    return absl::OkStatus();
  };
  STRATA_RETURN_IF_ERROR(unmatched(sends, recvs));
  STRATA_RETURN_IF_ERROR(unmatched(recvs, sends));
  for (const auto& [key, ids] : sends) {
    const auto [rank, index] = ids.front();
    const auto [peer, other] = recvs.find(key)->second.front();
    const Step& send = plans[rank].steps[index];
    const Step& recv = plans[peer].steps[other];
    if (send.src.bytes != recv.dst.bytes || send.level != recv.level) {
      return absl::InternalError(absl::StrCat(Where(rank, plans[rank], index), ": ", send.src.bytes,
                                              " bytes on level ", send.level, ", received as ",
                                              recv.dst.bytes, " bytes on level ", recv.level));
    }
    matches[ids.front()] = {peer, other};
  }
  return matches;
}

// Runs every step that can run until none is left or none can: then there is a cycle.
absl::Status CheckProgress(std::span<const Plan> plans,
                           const std::map<StepId, StepId>& receive_of) {
  std::vector<std::vector<int>> waits(plans.size());
  std::vector<std::vector<std::vector<StepId>>> next(plans.size());
  std::vector<StepId> ready;
  size_t left = 0;
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    waits[rank].resize(plans[rank].steps.size());
    next[rank].resize(plans[rank].steps.size());
    left += plans[rank].steps.size();
  }
  for (const auto& [send, recv] : receive_of) {
    next[send.first][send.second].push_back(recv);
    ++waits[recv.first][recv.second];
  }
  for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
    for (int i = 0; i < static_cast<int>(plans[rank].steps.size()); ++i) {
      for (int dependency : plans[rank].DependenciesOf(plans[rank].steps[i])) {
        next[rank][dependency].push_back({rank, i});
        ++waits[rank][i];
      }
      if (waits[rank][i] == 0) ready.push_back({rank, i});
    }
  }
  while (!ready.empty()) {
    const auto [rank, step] = ready.back();
    ready.pop_back();
    --left;
    for (const auto& [r, s] : next[rank][step]) {
      if (--waits[r][s] == 0) ready.push_back({r, s});
    }
  }
  if (left == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(left, " steps wait for each other"));
}

}  // namespace

absl::Status Validate(std::span<const Plan> plans) {
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    for (size_t i = 0; i < plans[rank].steps.size(); ++i) {
      const std::string where = Where(static_cast<int>(rank), plans[rank], i);
      STRATA_RETURN_IF_ERROR(CheckStep(plans[rank], i, where));
    }
    STRATA_RETURN_IF_ERROR(CheckOutput(plans[rank], static_cast<int>(rank)));
  }
  STRATA_ASSIGN_OR_RETURN(const auto receive_of, MatchTransfers(plans));
  return CheckProgress(plans, receive_of);
}

}  // namespace strata
