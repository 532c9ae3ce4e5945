#include "comm/tcp/inbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/outbox.h"
#include "comm/wire_tag.h"
#include "kernels/status.h"

namespace strata {
namespace {

absl::Status CheckOrder(const PostedReceive& receive, Tag tag) {
  if (receive.tag.order == tag.order) return absl::OkStatus();
  return OutOfStep(tag.operation);
}

absl::Status CheckSize(const PostedReceive& receive, int64_t bytes) {
  if (static_cast<int64_t>(receive.view.size()) == bytes) return absl::OkStatus();
  return OtherSize(receive.tag, bytes, static_cast<int64_t>(receive.view.size()));
}

}  // namespace

// The store is not touched before it is needed, so that it costs address space, not memory.
Inbox::Inbox(int64_t store_blocks)
    : store_(new std::byte[static_cast<size_t>(store_blocks * kStoreBlockBytes)]) {
  free_blocks_.reserve(static_cast<size_t>(store_blocks));
  for (int64_t i = store_blocks; i > 0; --i) free_blocks_.push_back(static_cast<int32_t>(i - 1));
}

absl::StatusOr<std::optional<EndedReceive>> Inbox::Post(PostedReceive receive) {
  const uint64_t key = MatchKey(receive.tag);
  const auto found = stored_.lower_bound(key);
  const bool stored = found != stored_.end() && found->first == key;
  const bool arriving = storing_ && !claimant_ && MatchKey(storing_->tag) == key;
  if (!stored && !arriving) {
    posted_.emplace(key, std::move(receive));
    return std::nullopt;
  }
  const Tag tag = stored ? found->second.tag : storing_->tag;
  if (absl::Status order = CheckOrder(receive, tag); !order.ok()) {
    posted_.emplace(key, std::move(receive));
    return order;
  }
  if (!stored) {
    claimant_ = std::move(receive);
    return std::nullopt;
  }
  EndedReceive ended = TakeStored(found->second, std::move(receive));
  stored_.erase(found);
  return ended;
}

absl::StatusOr<std::span<const std::span<std::byte>>> Inbox::Begin(const FrameHeader& header) {
  const int64_t bytes = static_cast<int64_t>(header.bytes);
  parts_.clear();
  const auto posted = posted_.lower_bound(MatchKey(header.tag));
  if (posted != posted_.end() && posted->first == MatchKey(header.tag)) {
    STRATA_RETURN_IF_ERROR(CheckOrder(posted->second, header.tag));
    receiving_ = std::move(posted->second);
    receiving_bytes_ = bytes;
    posted_.erase(posted);
    if (CheckSize(*receiving_, bytes).ok()) {
      parts_.push_back(receiving_->view);
    } else {
      Ignore(bytes);
    }
    return parts_;
  }
  Stored stored{.tag = header.tag, .bytes = bytes, .blocks = {}};
  const int64_t blocks = StoreBlocks(bytes);
  if (blocks > static_cast<int64_t>(free_blocks_.size())) {
    return absl::DataLossError(absl::StrCat("it sent ", bytes, " bytes that nobody waits for; ",
                                            free_blocks_.size() * kStoreBlockBytes, " are free"));
  }
  for (int64_t left = bytes; static_cast<int64_t>(stored.blocks.size()) < blocks;
       left -= kStoreBlockBytes) {
    stored.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
    parts_.push_back(
        Block(stored.blocks.back()).first(static_cast<size_t>(std::min(left, kStoreBlockBytes))));
  }
  storing_ = std::move(stored);
  return parts_;
}

std::optional<EndedReceive> Inbox::End() {
  if (receiving_) {
    absl::Status status = CheckSize(*receiving_, receiving_bytes_);
    return EndedReceive{*std::exchange(receiving_, std::nullopt), std::move(status)};
  }
  Stored stored = *std::exchange(storing_, std::nullopt);
  if (claimant_) return TakeStored(stored, *std::exchange(claimant_, std::nullopt));
  stored_.emplace(MatchKey(stored.tag), std::move(stored));
  return std::nullopt;
}

std::vector<PostedReceive> Inbox::TakeAll() {
  std::vector<PostedReceive> all;
  if (receiving_) all.push_back(*std::exchange(receiving_, std::nullopt));
  if (claimant_) all.push_back(*std::exchange(claimant_, std::nullopt));
  for (auto& [key, receive] : posted_) all.push_back(std::move(receive));
  posted_.clear();
  return all;
}

std::span<std::byte> Inbox::Block(int32_t index) const {
  return {store_.get() + index * kStoreBlockBytes, static_cast<size_t>(kStoreBlockBytes)};
}

// Copies unless the sizes differ, and frees the blocks.
EndedReceive Inbox::TakeStored(const Stored& stored, PostedReceive receive) {
  absl::Status status = CheckSize(receive, stored.bytes);
  std::span<std::byte> rest = status.ok() ? receive.view : std::span<std::byte>();
  for (const int32_t block : stored.blocks) {
    const size_t bytes = std::min(rest.size(), static_cast<size_t>(kStoreBlockBytes));
    if (bytes > 0) std::memcpy(rest.data(), Block(block).data(), bytes);
    rest = rest.subspan(bytes);
    free_blocks_.push_back(block);
  }
  return {std::move(receive), std::move(status)};
}

// The payload that arrives next is written over and over itself.
void Inbox::Ignore(int64_t bytes) {
  ignored_.resize(kStoreBlockBytes);
  for (int64_t left = bytes; left > 0; left -= kStoreBlockBytes) {
    parts_.push_back(
        std::span(ignored_).first(static_cast<size_t>(std::min(left, kStoreBlockBytes))));
  }
}

}  // namespace strata
