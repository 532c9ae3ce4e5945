// The parts of the TCP transport that know no socket: a writer's bytes, cut anywhere, are put
// together again by a reader, and a reader survives any bytes.
#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "comm/outbox.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/frame_reader.h"
#include "comm/tcp/frame_writer.h"
#include "comm/tcp/inbox.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr int64_t kBlocks = 4;

// One direction of a connection, and the way back of its announcements, without a socket.
class Pipe final : public FrameSink {
 public:
  Pipe() : inbox_(kBlocks), outbox_(kBlocks), writer_(outbox_), reader_(inbox_, *this, 1 << 20) {}

  void Send(uint32_t message, const std::vector<std::byte>& bytes) {
    outbox_.Push(
        {.tag = {.operation = 1, .message = message}, .view = bytes, .done = [](absl::Status) {}});
  }
  void Recv(uint32_t message, std::vector<std::byte>& bytes) {
    const Tag tag{.operation = 1, .message = message};
    auto posted = inbox_.Post({.tag = tag, .view = bytes, .done = [](absl::Status) {}});
    ASSERT_OK(posted);
    if (*posted) OnReceived(**std::move(posted));
    EXPECT_OK(outbox_.OnReady(tag));
  }
  // Moves at most `limit` bytes over the wire; returns how many.
  size_t Move(size_t limit) {
    std::vector<std::byte> wire;
    for (const iovec& part : writer_.Sources()) {
      const auto* bytes = static_cast<const std::byte*>(part.iov_base);
      wire.insert(wire.end(), bytes, bytes + std::min(part.iov_len, limit - wire.size()));
    }
    sent_ += writer_.Advance(wire.size()).size();
    size_t moved = 0;
    while (moved < wire.size()) {
      const size_t taken = Scatter(std::span(wire).subspan(moved));
      EXPECT_OK(reader_.Take(taken));
      moved += taken;
    }
    return moved;
  }

  size_t sent() const { return sent_; }
  const std::vector<uint32_t>& received() const { return received_; }

  void OnReceived(EndedReceive ended) override {
    EXPECT_OK(ended.status);
    received_.push_back(ended.receive.tag.message);
  }
  absl::Status OnReady(Tag) override { return absl::OkStatus(); }
  absl::Status OnFail(const FrameHeader&) override { return absl::OkStatus(); }

 private:
  size_t Scatter(std::span<const std::byte> wire) {
    size_t taken = 0;
    for (const iovec& target : reader_.Targets()) {
      const size_t here = std::min(target.iov_len, wire.size() - taken);
      if (here > 0) std::memcpy(target.iov_base, wire.data() + taken, here);
      taken += here;
    }
    return taken;
  }

  Inbox inbox_;
  Outbox outbox_;
  FrameWriter writer_;
  FrameReader reader_;
  size_t sent_ = 0;
  std::vector<uint32_t> received_;
};

std::vector<std::byte> Pattern(size_t size, uint32_t seed) {
  std::vector<std::byte> bytes(size);
  std::mt19937 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(TcpFrames, AnyCutAndAnyOrderOfReceivesDeliversTheSameBytes) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const uint32_t count = 1 + random() % 23;
    std::vector<std::vector<std::byte>> sent, received;
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < count; ++i) {
      const size_t size = random() % 5 == 0 ? random() % 70000 : random() % 97;
      sent.push_back(Pattern(size, seed + i));
      received.emplace_back(size);
      order.push_back(i);
    }
    std::shuffle(order.begin(), order.end(), random);
    Pipe pipe;
    uint32_t next_send = 0, next_recv = 0;
    while (pipe.received().size() < count) {
      const uint32_t choice = random() % 4;
      size_t moved = 1;
      if (choice == 0 && next_send < count) {
        pipe.Send(next_send, sent[next_send]);
        ++next_send;
      } else if (choice == 1 && next_recv < count) {
        const uint32_t message = order[next_recv++];
        pipe.Recv(message, received[message]);
      } else {
        moved = pipe.Move(random() % 3 == 0 ? 1 + random() % 40 : 100000);
      }
      ASSERT_TRUE(moved > 0 || next_send < count || next_recv < count) << "stuck, seed " << seed;
    }
    EXPECT_EQ(pipe.sent(), count);
    EXPECT_TRUE(sent == received) << "seed " << seed;
  }
}

TEST(TcpFrames, ReaderSurvivesAnyBytes) {
  class Ignore final : public FrameSink {
    void OnReceived(EndedReceive) override {}
    absl::Status OnReady(Tag) override { return absl::OkStatus(); }
    absl::Status OnFail(const FrameHeader&) override { return absl::CancelledError(); }
  } ignore;
  const FrameKind kinds[] = {FrameKind::kData, FrameKind::kReady, FrameKind::kFail};
  int refused = 0;
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    std::mt19937 random(seed);
    Inbox inbox(kBlocks);
    FrameReader reader(inbox, ignore, 1 << 16);
    absl::Status status;
    for (int i = 0; i < 40 && status.ok(); ++i) {
      FrameHeaderBytes bytes = Encode({.kind = kinds[random() % 3],
                                       .tag = {.operation = static_cast<uint32_t>(random() % 4)},
                                       .bytes = random() % 70000});
      if (random() % 4 == 0) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      size_t written = 0;
      for (const iovec& target : reader.Targets()) {
        const size_t here = std::min(target.iov_len, bytes.size() - written);
        if (here > 0) std::memcpy(target.iov_base, bytes.data() + written, here);
        written += here;
      }
      status = reader.Take(written);
    }
    refused += status.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 2000);
}

TEST(TcpFrames, HeadersOutOfRangeAreDataLoss) {
  FrameHeaderBytes good = Encode({.kind = FrameKind::kData, .tag = {1, 2, 3}, .bytes = 65536});
  EXPECT_OK(DecodeFrameHeader(good, 65536));
  EXPECT_THAT(DecodeFrameHeader(good, 65535),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("65536")));
  for (const size_t at : {size_t{0}, size_t{7}, size_t{11}, size_t{15}, size_t{23}}) {
    FrameHeaderBytes bad = good;
    bad[at] = std::byte{0xff};
    EXPECT_THAT(DecodeFrameHeader(bad, 65536), StatusIs(absl::StatusCode::kDataLoss, testing::_));
  }
}

TEST(TcpFrames, OverrunOfTheStoreIsDataLoss) {
  Inbox inbox(kBlocks);
  EXPECT_THAT(inbox.Begin({.tag = {1, 2, 3}, .bytes = kBlocks * kStoreBlockBytes + 1}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("nobody waits for")));
}

TEST(TcpFrames, AHalfWrittenFrameIsFinishedAfterItsBufferIsGone) {
  Outbox outbox(kBlocks);
  FrameWriter writer(outbox);
  std::vector<std::byte> bytes = Pattern(100, 1);
  const std::vector<std::byte> copy = bytes;
  outbox.Push({.tag = {1, 2, 3}, .view = bytes, .done = [](absl::Status) {}});
  outbox.Push({.tag = {1, 3, 3}, .view = bytes, .done = [](absl::Status) {}});
  ASSERT_EQ(writer.Sources().size(), 4u);
  EXPECT_TRUE(writer.Advance(30).empty());
  EXPECT_EQ(writer.GiveUp().size(), 2u);
  std::fill(bytes.begin(), bytes.end(), std::byte{});
  writer.Push({.kind = FrameKind::kFail});
  const auto rest = writer.Sources();
  ASSERT_EQ(rest.size(), 2u);
  ASSERT_EQ(rest[0].iov_len, kFrameHeaderBytes + 100 - 30);
  EXPECT_EQ(std::memcmp(rest[0].iov_base, copy.data() + 30 - kFrameHeaderBytes, rest[0].iov_len),
            0);
}

}  // namespace
}  // namespace strata
