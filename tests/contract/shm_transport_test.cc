#include "comm/shm/shm_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "comm/loop_calls.h"
#include "comm/shm/memory_segments.h"
#include "comm/shm/shm_connection.h"
#include "comm/shm/shm_listener.h"
#include "tests/contract/transport_contract.h"
#include "tests/support/gate.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

// One loop and transport per rank, which meet over their listeners.
class ShmMesh final : public TransportMesh {
 public:
  explicit ShmMesh(int size) : ranks_(size) {
    std::vector<PeerAddress> all;
    for (int rank = 0; rank < size; ++rank) {
      auto listener = ShmListener::Create(*ranks_[rank].loop, ranks_[rank].segments);
      EXPECT_OK(listener);
      all.push_back({Rank{rank}, (*listener)->address(), absl::StrCat("h", rank)});
      ranks_[rank].listener = *std::move(listener);
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([this, rank, peers = all]() mutable {
        peers.erase(peers.begin() + rank);
        auto transport = ranks_[rank].listener->Connect(
            {.self = Rank{rank}, .lane = "test", .token = "secret", .timeout = absl::Seconds(20)},
            std::move(peers));
        EXPECT_OK(transport);
        if (transport.ok()) ranks_[rank].transport = *std::move(transport);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  Loop& loop(Rank rank) override { return *ranks_[Index(rank)].loop; }
  Transport& transport(Rank rank) override { return *ranks_[Index(rank)].transport; }
  MemorySegments& segments(Rank rank) { return ranks_[Index(rank)].segments; }

  bool WaitUntil(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    return WaitInRealTime(done, limit);
  }
  void Vanish(Rank rank) override { ranks_[Index(rank)].transport.reset(); }

 private:
  struct PerRank {
    MemorySegments segments;
    std::unique_ptr<AsioLoop> loop = std::make_unique<AsioLoop>("lane");
    std::unique_ptr<TransportFactory> listener;
    std::unique_ptr<Transport> transport;
  };
  std::vector<PerRank> ranks_;
};

std::unique_ptr<TransportMesh> MakeShmMesh(int size) { return std::make_unique<ShmMesh>(size); }

INSTANTIATE_TEST_SUITE_P(Shm, TransportContract, testing::Values(MakeShmMesh));

constexpr absl::Duration kLimit = absl::Seconds(20);

// What the contract does with ordinary memory, with shared segments.
TEST(ShmTransportTest, CopiesOutOfSegments) {
  ShmMesh mesh(2);
  const int64_t sizes[] = {0, 1, 7, 4096, 65537, (1 << 20) + 1, 5 << 20};
  const int64_t total = std::accumulate(std::begin(sizes), std::end(sizes), int64_t{0});
  auto first = mesh.segments(Rank{0}).Allocate(1);
  auto second = mesh.segments(Rank{0}).Allocate(total);
  auto target = mesh.segments(Rank{1}).Allocate(total);
  ASSERT_OK(first);
  ASSERT_OK(second);
  ASSERT_OK(target);
  for (int64_t i = 0; i < total; ++i)
    second->bytes[i] = static_cast<std::byte>(i * 7 / 5 + i / 251);
  std::atomic<int> ended = 0;
  int64_t offset = 0;
  uint32_t message = 0;
  for (const int64_t size : sizes) {
    const std::span<const std::byte> source = second->bytes.subspan(offset, size);
    const std::span<std::byte> into = target->bytes.subspan(offset, size);
    const Tag tag{.operation = 1, .message = message++};
    const auto done = [&ended] {
      return [&ended](absl::Status status) {
        EXPECT_OK(status);
        ++ended;
      };
    };
    RunInLoop(mesh.loop(Rank{0}),
              [&] { mesh.transport(Rank{0}).Send(Rank{1}, tag, source, done()); });
    RunInLoop(mesh.loop(Rank{1}),
              [&] { mesh.transport(Rank{1}).Recv(Rank{0}, tag, into, done()); });
    offset += size;
  }
  ASSERT_TRUE(mesh.WaitUntil([&] { return ended == 2 * std::ssize(sizes); }, kLimit));
  EXPECT_EQ(std::memcmp(target->bytes.data(), second->bytes.data(), total), 0);
}

TEST(ShmTransportTest, SegmentsAreWholePagesOfZeros) {
  MemorySegments segments;
  for (const int64_t bytes : {1, 4095, 4096, 4097, 1 << 20}) {
    const auto segment = segments.Allocate(bytes);
    ASSERT_OK(segment);
    EXPECT_EQ(static_cast<int64_t>(segment->bytes.size()), (bytes + 4095) / 4096 * 4096);
    for (const std::byte byte : segment->bytes) ASSERT_EQ(byte, std::byte{0});
  }
  EXPECT_THAT(segments.Allocate(0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0")));
  EXPECT_THAT(segments.Allocate(int64_t{1} << 50),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1125899906842624")));
}

TEST(ShmTransportTest, FindsOnlyWhatLiesWithinOneSegment) {
  MemorySegments segments;
  const auto a = segments.Allocate(4096);
  const auto b = segments.Allocate(8192);
  ASSERT_OK(a);
  ASSERT_OK(b);
  const auto place = segments.Find(std::span<const std::byte>(b->bytes).subspan(100, 8092));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->segment, 1u);
  EXPECT_EQ(place->offset, 100u);
  EXPECT_FALSE(segments.Find({b->bytes.data() + 100, 8093}).has_value());
  std::byte elsewhere[8];
  EXPECT_FALSE(segments.Find(elsewhere).has_value());
}

// A peer that writes what no ShmTransport writes: its connection ends, nothing else happens.
class BadPeerTest : public testing::Test {
 protected:
  BadPeerTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    fd_ = fds[0];
    RunInLoop(loop_, [&] {
      std::vector<ShmTransport::Peer> peers;
      peers.push_back({Rank{1}, "peer 1 (host b)", fds[1]});
      transport_ = std::make_unique<ShmTransport>(loop_, segments_, std::move(peers));
      transport_->Recv(Rank{1}, {.operation = 1}, buffer_, [this](absl::Status status) {
        status_ = std::move(status);
        ended_.Open();
      });
    });
  }
  ~BadPeerTest() override {
    RunInLoop(loop_, [this] { transport_.reset(); });
    close(fd_);
  }

  absl::Status After(std::span<const std::byte> bytes) {
    EXPECT_EQ(write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(ended_.WaitFor(kLimit));
    return status_;
  }
  absl::Status After(const ShmFrame& frame) { return After(std::as_bytes(std::span(&frame, 1))); }

  MemorySegments segments_;
  std::unique_ptr<ShmTransport> transport_;
  int fd_ = -1;
  std::byte buffer_[64] = {};
  Gate ended_;
  absl::Status status_;
  AsioLoop loop_{"lane"};  // ends first: its last task may report a status
};

TEST_F(BadPeerTest, UnknownKind) {
  EXPECT_THAT(After(ShmFrame{.kind = static_cast<ShmKind>(77)}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("peer 1 (host b): malformed")));
}
TEST_F(BadPeerTest, SegmentNotAnnounced) {
  EXPECT_THAT(After(ShmFrame{.kind = ShmKind::kShared, .operation = 1, .bytes = 64}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not announced")));
}
TEST_F(BadPeerTest, SegmentWithoutDescriptor) {
  EXPECT_THAT(After(ShmFrame{.kind = ShmKind::kSegment, .bytes = 4096}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("without descriptor")));
}
TEST_F(BadPeerTest, ReplyToNothing) {
  EXPECT_THAT(After(ShmFrame{.kind = ShmKind::kAck, .sequence = 5}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("reply to nothing")));
}
TEST_F(BadPeerTest, HugeInlineMessage) {
  EXPECT_THAT(After(ShmFrame{.kind = ShmKind::kInline, .bytes = ~uint64_t{0}}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("inline message")));
}

// Places in a segment that are not all inside it, with sums that overflow among them.
TEST_F(BadPeerTest, PlacesOutsideTheSegment) {
  struct Case {
    uint64_t offset, bytes;
  };
  const Case cases[] = {{4096, 1}, {0, 4097}, {4095, 2}, {~uint64_t{0}, 2}, {2, ~uint64_t{0}}};
  for (const Case& c : cases) {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    MemorySegments theirs;
    const auto segment = theirs.Allocate(4096);
    ASSERT_OK(segment);
    Gate ended;
    absl::Status status;
    std::unique_ptr<ShmTransport> transport;
    RunInLoop(loop_, [&] {
      std::vector<ShmTransport::Peer> peers;
      peers.push_back({Rank{1}, "peer 1 (host b)", fds[1]});
      transport = std::make_unique<ShmTransport>(loop_, segments_, std::move(peers));
      transport->Recv(Rank{1}, {.operation = 1}, buffer_, [&](absl::Status s) {
        status = std::move(s);
        ended.Open();
      });
    });
    const ShmFrame frames[] = {{.kind = ShmKind::kSegment, .segment = 3, .bytes = 4096},
                               {.kind = ShmKind::kShared,
                                .segment = 3,
                                .operation = 1,
                                .offset = c.offset,
                                .bytes = c.bytes}};
    iovec part{const_cast<ShmFrame*>(frames), sizeof(frames)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{.msg_iov = &part,
                   .msg_iovlen = 1,
                   .msg_control = control,
                   .msg_controllen = sizeof(control)};
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &segment->fd, sizeof(int));
    ASSERT_EQ(sendmsg(fds[0], &message, 0), static_cast<ssize_t>(sizeof(frames)));
    ASSERT_TRUE(ended.WaitFor(kLimit));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("of a segment of 4096")));
    RunInLoop(loop_, [&] { transport.reset(); });
    close(fds[0]);
  }
}

TEST_F(BadPeerTest, RandomBytesEndTheConnection) {
  uint32_t state = 12345;
  std::vector<std::byte> garbage(48 * 50);
  for (std::byte& byte : garbage)
    byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  EXPECT_THAT(After(garbage), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("malformed frame")));
}

}  // namespace
}  // namespace strata
