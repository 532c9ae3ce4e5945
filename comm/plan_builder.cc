#include "comm/plan_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace strata {
namespace {

constexpr int64_t kAlignment = 64;  // of scratch slices: a cache line
constexpr Turn kFirstOfAll{-1, 0, 0};

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Slice PlanBuilder::AddScratch(int64_t bytes) {
  int64_t begin = RoundUp(plan_.scratch_bytes, kAlignment);
  if (begin / chunk_bytes_ != (begin + bytes - 1) / chunk_bytes_) {
    begin = RoundUp(begin, chunk_bytes_);
  }
  plan_.scratch_bytes = begin + bytes;
  return {BufferId::kScratch, begin, bytes};
}

int PlanBuilder::Recv(Rank peer, int level, uint32_t message, Slice dst) {
  Step step{.op = Op::kRecv, .level = level, .peer = peer, .message = message, .dst = dst};
  return Add(step, kFirstOfAll, {});
}

int PlanBuilder::Send(Rank peer, int level, uint32_t message, Slice src, Turn turn,
                      std::span<const int> after) {
  Step step{.op = Op::kSend, .level = level, .peer = peer, .message = message, .src = src};
  return Add(step, turn, after);
}

int PlanBuilder::Copy(Slice src, Slice dst, Turn turn) {
  return Add({.op = Op::kCopy, .src = src, .dst = dst}, turn, {});
}

int PlanBuilder::Reduce(Slice src, Slice other, Slice dst, Turn turn, std::span<const int> after) {
  return Add({.op = Op::kReduce, .src = src, .other = other, .dst = dst}, turn, after);
}

int PlanBuilder::Add(const Step& step, Turn turn, std::span<const int> after) {
  for (int dependency : after) turn = std::max(turn, drafts_[dependency].turn);
  drafts_.push_back({step, turn, {after.begin(), after.end()}});
  return static_cast<int>(drafts_.size()) - 1;
}

Plan PlanBuilder::Finish() && {
  std::vector<int> order(drafts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return drafts_[a].turn < drafts_[b].turn; });
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);

  plan_.steps.reserve(order.size());
  for (int draft : order) {
    Step step = drafts_[draft].step;
    step.first_dependency = static_cast<int>(plan_.dependencies.size());
    step.dependency_count = static_cast<int>(drafts_[draft].after.size());
    for (int dependency : drafts_[draft].after) plan_.dependencies.push_back(place[dependency]);
    plan_.steps.push_back(step);
  }
  return std::move(plan_);
}

}  // namespace strata
