#include "comm/tcp/frame_writer.h"

#include <algorithm>
#include <utility>

namespace strata {
namespace {

// A write of more would not go faster, and would keep frames of our own waiting behind it.
constexpr size_t kWriteBytes = 512 * 1024;

}  // namespace

void FrameWriter::Push(const FrameHeader& header) {
  control_.push_back({.header = Encode(header)});
}

std::span<const iovec> FrameWriter::Sources() {
  Refill();
  size_t count = 0;
  size_t skip = offset_;
  for (const Frame& frame : frames_) {
    for (const std::span<const std::byte> part :
         {std::span<const std::byte>(frame.header), frame.view}) {
      const size_t here = std::min(skip, part.size());
      skip -= here;
      if (here == part.size()) continue;
      sources_[count++] = {const_cast<std::byte*>(part.data()) + here, part.size() - here};
    }
  }
  return {sources_.data(), count};
}

void FrameWriter::Refill() {
  size_t bytes = 0;
  for (const Frame& frame : frames_) bytes += frame.size();
  while (2 * frames_.size() + 2 <= sources_.size() && bytes < kWriteBytes) {
    if (!control_.empty()) {
      frames_.push_back(std::move(control_.front()));
      control_.pop_front();
    } else if (std::optional<OutMessage> message = outbox_.Pop()) {
      const FrameHeader header{
          .kind = FrameKind::kData, .tag = message->tag, .bytes = message->view.size()};
      frames_.push_back(
          {.header = Encode(header), .view = message->view, .done = std::move(message->done)});
    } else {
      return;
    }
    bytes += frames_.back().size();
  }
}

std::vector<FrameWriter::Sent> FrameWriter::Advance(size_t count) {
  std::vector<Sent> sent;
  offset_ += count;
  while (!frames_.empty() && offset_ >= frames_.front().size()) {
    Frame& frame = frames_.front();
    offset_ -= frame.size();
    if (frame.done) {
      sent.push_back(
          {.bytes = static_cast<int64_t>(frame.view.size()), .done = std::move(frame.done)});
    }
    frames_.pop_front();
  }
  return sent;
}

std::vector<Done> FrameWriter::GiveUp() {
  std::vector<Done> dones;
  for (Frame& frame : frames_) {
    if (frame.done) dones.push_back(std::exchange(frame.done, nullptr));
  }
  control_.clear();
  if (offset_ == 0) {
    frames_.clear();
    return dones;
  }
  frames_.erase(frames_.begin() + 1, frames_.end());
  rest_.assign(frames_.front().view.begin(), frames_.front().view.end());
  frames_.front().view = rest_;
  return dones;
}

bool FrameWriter::has_message() const {
  return std::any_of(frames_.begin(), frames_.end(),
                     [](const Frame& frame) { return static_cast<bool>(frame.done); });
}

}  // namespace strata
