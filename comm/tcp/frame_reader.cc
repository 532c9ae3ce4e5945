#include "comm/tcp/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/status.h"

namespace strata {
namespace {

constexpr size_t kStagingBytes = 4096;

}  // namespace

FrameReader::FrameReader(Inbox& inbox, FrameSink& sink, int64_t max_message_bytes)
    : inbox_(inbox), sink_(sink), max_message_bytes_(max_message_bytes), staging_(kStagingBytes) {}

std::span<const iovec> FrameReader::Targets() {
  size_t count = 0;
  for (size_t i = part_; i < parts_.size() && count + 1 < targets_.size(); ++i) {
    const auto rest = parts_[i].subspan(i == part_ ? part_offset_ : 0);
    targets_[count++] = {rest.data(), rest.size()};
  }
  // Staging comes after the whole payload or not at all.
  if (parts_.size() - part_ == count) {
    targets_[count++] = {staging_.data() + staging_end_, staging_.size() - staging_end_};
  }
  return {targets_.data(), count};
}

absl::Status FrameReader::Take(size_t count) {
  while (count > 0 && part_ < parts_.size()) {
    const size_t here = std::min(count, parts_[part_].size() - part_offset_);
    part_offset_ += here;
    count -= here;
    SkipFilled();
  }
  staging_end_ += count;
  while (true) {
    if (in_message_) {
      FillFromStaging();
      if (part_ < parts_.size()) break;
      EndMessage();
    }
    if (staging_end_ - staging_begin_ < kFrameHeaderBytes) break;
    const std::span<const std::byte, kFrameHeaderBytes> bytes(staging_.data() + staging_begin_,
                                                              kFrameHeaderBytes);
    staging_begin_ += kFrameHeaderBytes;
    STRATA_ASSIGN_OR_RETURN(const FrameHeader header, DecodeFrameHeader(bytes, max_message_bytes_));
    STRATA_RETURN_IF_ERROR(OnHeader(header));
  }
  std::memmove(staging_.data(), staging_.data() + staging_begin_, staging_end_ - staging_begin_);
  staging_end_ -= std::exchange(staging_begin_, 0);
  return absl::OkStatus();
}

absl::Status FrameReader::OnHeader(const FrameHeader& header) {
  last_tag_ = header.tag;
  switch (header.kind) {
    case FrameKind::kReady:
      return sink_.OnReady(header.tag);
    case FrameKind::kFail:
      return sink_.OnFail(header);
    case FrameKind::kData:
      break;
  }
  STRATA_ASSIGN_OR_RETURN(parts_, inbox_.Begin(header));
  part_ = part_offset_ = 0;
  SkipFilled();
  in_message_ = true;
  return absl::OkStatus();
}

void FrameReader::FillFromStaging() {
  while (part_ < parts_.size() && staging_begin_ < staging_end_) {
    const auto rest = parts_[part_].subspan(part_offset_);
    const size_t here = std::min(rest.size(), staging_end_ - staging_begin_);
    std::memcpy(rest.data(), staging_.data() + staging_begin_, here);
    staging_begin_ += here;
    part_offset_ += here;
    SkipFilled();
  }
}

void FrameReader::SkipFilled() {
  while (part_ < parts_.size() && part_offset_ == parts_[part_].size()) {
    ++part_;
    part_offset_ = 0;
  }
}

void FrameReader::EndMessage() {
  in_message_ = false;
  parts_ = {};
  part_ = part_offset_ = 0;
  if (std::optional<EndedReceive> ended = inbox_.End()) sink_.OnReceived(*std::move(ended));
}

}  // namespace strata
