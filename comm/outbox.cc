#include "comm/outbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/wire_tag.h"

namespace strata {
namespace {

// Far above what a plan posts at once; keeps a broken peer from filling our memory.
constexpr size_t kMaxAnnounced = 1 << 20;

}  // namespace

void Outbox::Push(OutMessage message) {
  const auto announced = announced_.lower_bound(MatchKey(message.tag));
  if (announced != announced_.end() && announced->first == MatchKey(message.tag)) {
    announced_.erase(announced);
    ready_.push_back(std::move(message));
    return;
  }
  held_.push_back(std::move(message));
  AdmitHeld();
}

absl::Status Outbox::OnReady(Tag tag) {
  const uint64_t key = MatchKey(tag);
  if (const auto early = early_.lower_bound(key); early != early_.end() && early->first == key) {
    if (early->second.order != tag.order) return OutOfStep(tag.operation);
    free_blocks_ += early->second.blocks;
    early_.erase(early);
    AdmitHeld();
    return absl::OkStatus();
  }
  const auto held = std::find_if(held_.begin(), held_.end(), [key](const OutMessage& message) {
    return MatchKey(message.tag) == key;
  });
  if (held != held_.end()) {
    if (held->tag.order != tag.order) return OutOfStep(tag.operation);
    ready_.push_back(std::move(*held));
    held_.erase(held);
    AdmitHeld();
    return absl::OkStatus();
  }
  if (announced_.size() >= kMaxAnnounced) {
    return absl::DataLossError(absl::StrCat("it has announced ", kMaxAnnounced, " receives"));
  }
  announced_.emplace(key, tag.order);
  return absl::OkStatus();
}

void Outbox::AdmitHeld() {
  while (!held_.empty()) {
    const int64_t blocks = StoreBlocks(static_cast<int64_t>(held_.front().view.size()));
    if (blocks > free_blocks_) return;
    free_blocks_ -= blocks;
    const Tag tag = held_.front().tag;
    early_.emplace(MatchKey(tag), Early{.order = tag.order, .blocks = blocks});
    ready_.push_back(std::move(held_.front()));
    held_.pop_front();
  }
}

std::optional<OutMessage> Outbox::Pop() {
  if (ready_.empty()) return std::nullopt;
  OutMessage message = std::move(ready_.front());
  ready_.pop_front();
  return message;
}

std::vector<OutMessage> Outbox::TakeAll() {
  std::vector<OutMessage> all;
  for (OutMessage& message : ready_) all.push_back(std::move(message));
  for (OutMessage& message : held_) all.push_back(std::move(message));
  ready_.clear();
  held_.clear();
  return all;
}

}  // namespace strata
