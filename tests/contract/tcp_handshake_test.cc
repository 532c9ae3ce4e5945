#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/interfaces.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/tcp_transport.h"
#include "comm/transport_factory.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using boost::asio::ip::tcp;
using testing::AllOf;
using testing::HasSubstr;

Interface Loopback() { return {.name = "lo", .address = "127.0.0.1", .prefix_bits = 8}; }

// One rank of a job, on a loop of its own.
struct Member {
  explicit Member(int number, TcpOptions options = {}) : rank{number}, loop("member") {
    auto made = TcpListener::Create(loop, Loopback(), options);
    EXPECT_OK(made);
    listener = *std::move(made);
  }
  PeerAddress At(const std::string& host) const { return {rank, listener->address(), host}; }
  absl::StatusOr<std::unique_ptr<Transport>> Connect(std::vector<PeerAddress> peers,
                                                     ConnectOptions options) {
    options.self = rank;
    return listener->Connect(options, std::move(peers));
  }

  Rank rank;
  AsioLoop loop;
  std::unique_ptr<TransportFactory> listener;
};

ConnectOptions With(const std::string& token, absl::Duration timeout = absl::Seconds(20)) {
  return {.lane = "test", .token = token, .timeout = timeout};
}

// A connection by somebody who is no rank. Blocking.
class Stranger {
 public:
  explicit Stranger(const std::string& address) : socket_(context_) {
    const size_t colon = address.rfind(':');
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(colon + 1), &port));
    socket_.connect(
        {boost::asio::ip::make_address(address.substr(0, colon)), static_cast<uint16_t>(port)},
        error_);
  }
  bool refused() const { return error_ == boost::asio::error::connection_refused; }
  void Write(const std::string& bytes) {
    boost::asio::write(socket_, boost::asio::buffer(bytes), error_);
  }
  // What comes until the other side closes.
  std::string ReadAll() {
    std::string all;
    std::array<char, 256> part;
    while (true) {
      const size_t bytes = socket_.read_some(boost::asio::buffer(part), error_);
      if (bytes == 0) return all;
      all.append(part.data(), bytes);
    }
  }

 private:
  boost::asio::io_context context_;
  tcp::socket socket_;
  boost::system::error_code error_;
};

TEST(TcpHandshake, WrongTokenIsRefusedOnBothSides) {
  Member a(0), b(1);
  absl::Status status_a;
  std::thread thread(
      [&] { status_a = a.Connect({b.At("hb")}, With("right", absl::Seconds(1))).status(); });
  const absl::Status status_b = b.Connect({a.At("ha")}, With("wrong")).status();
  thread.join();
  EXPECT_THAT(status_b, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("peer 0 (host ha)"), HasSubstr("job token"))));
  EXPECT_THAT(status_a, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 AllOf(HasSubstr("peer 1 (host hb)"), HasSubstr("job token"))));
}

TEST(TcpHandshake, WrongTokenDoesNotDisturbTheOthers) {
  Member a(0), b(1), imposter(1);
  absl::StatusOr<std::unique_ptr<Transport>> made_a, made_b;
  std::thread thread([&] { made_a = a.Connect({b.At("hb")}, With("right")); });
  EXPECT_THAT(imposter.Connect({a.At("ha")}, With("wrong")).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("job token")));
  made_b = b.Connect({a.At("ha")}, With("right"));
  thread.join();
  EXPECT_OK(made_a);
  EXPECT_OK(made_b);
}

TEST(TcpHandshake, OtherLanesAndOtherRanksAreRefused) {
  Member a(0), b(1), c(2);
  absl::Status ignored;
  std::thread thread([&] {
    ignored = a.Connect({b.At("hb"), c.At("hc")}, With("token", absl::Seconds(1))).status();
  });
  ConnectOptions other_lane = With("token");
  other_lane.lane = "other";
  EXPECT_THAT(b.Connect({a.At("ha")}, other_lane).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("lane")));
  // Believes that a is rank 1.
  EXPECT_THAT(c.Connect({{Rank{1}, a.listener->address(), "ha"}}, With("token")).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another rank")));
  thread.join();
  EXPECT_THAT(ignored,
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("peer 2 (host hc)")));
}

TEST(TcpHandshake, GarbageNeitherCrashesNorBlocks) {
  Member a(0, {.handshake_timeout = absl::Milliseconds(300)}), b(1);
  absl::StatusOr<std::unique_ptr<Transport>> made_a;
  std::thread thread([&] { made_a = a.Connect({b.At("hb")}, With("token")); });
  std::mt19937 random(20240229);
  const std::string start = absl::StrCat("strata/1test", std::string(20, '\0'));
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 3 == 0) bytes = start + bytes;  // gets further
    Stranger stranger(a.listener->address());
    stranger.Write(bytes);
    // Sees nothing but a nonce and a verdict; most of the time, not even that.
    if (i % 100 == 0) {
      EXPECT_LE(stranger.ReadAll().size(), 32u + 33u);
    }
  }
  EXPECT_OK(b.Connect({a.At("ha")}, With("token")));
  thread.join();
  EXPECT_OK(made_a);
}

TEST(TcpHandshake, HalfOpenConnectionsDoNotKeepOthersOut) {
  Member a(0), b(1);
  absl::StatusOr<std::unique_ptr<Transport>> made_a;
  std::thread thread([&] { made_a = a.Connect({b.At("hb")}, With("token")); });
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(std::make_unique<Stranger>(a.listener->address()));
    if (i % 2 == 0) strangers.back()->Write("strata/1");
  }
  EXPECT_OK(b.Connect({a.At("ha")}, With("token")));
  thread.join();
  EXPECT_OK(made_a);
}

TEST(TcpHandshake, NothingListensDuringTheRun) {
  Member a(0), b(1);
  absl::StatusOr<std::unique_ptr<Transport>> made_a;
  std::thread thread([&] { made_a = a.Connect({b.At("hb")}, With("token")); });
  auto made_b = b.Connect({a.At("ha")}, With("token"));
  thread.join();
  ASSERT_OK(made_a);
  ASSERT_OK(made_b);
  EXPECT_TRUE(Stranger(a.listener->address()).refused());
  EXPECT_TRUE(Stranger(b.listener->address()).refused());
}

TEST(TcpHandshake, DeadPeerIsNamed) {
  Member b(1);
  std::string address;
  {
    Member gone(0);
    address = gone.listener->address();
  }
  EXPECT_THAT(b.Connect({{Rank{0}, address, "ha"}}, With("token")).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("peer 0 (host ha)"), HasSubstr(address))));
}

TEST(TcpHandshake, BadAddressesAreNamed) {
  Member b(1), c(2);
  EXPECT_THAT(b.Connect({{Rank{0}, "nonsense", "ha"}}, With("token")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nonsense")));
  EXPECT_THAT(c.Connect({{Rank{0}, "10.1.2.3:4", "ha"}}, With("token")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loopback")));
}

TEST(TcpHandshake, OneRankAloneNeedsNobody) {
  Member a(0);
  EXPECT_OK(a.Connect({}, With("token")));
  EXPECT_THAT(a.Connect({}, With("token")).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("twice")));
}

}  // namespace
}  // namespace strata
