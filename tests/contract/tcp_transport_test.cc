#include "comm/tcp/tcp_transport.h"

#include <memory>
#include <vector>

#include "tests/contract/socket_mesh.h"
#include "tests/contract/transport_contract.h"
#include "tests/support/gate.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

std::unique_ptr<TransportMesh> MakeTcpMesh(int size) { return MakeSocketMesh("tcp", size); }

INSTANTIATE_TEST_SUITE_P(Tcp, TransportContract, testing::Values(MakeTcpMesh));

// A rank that is several operations ahead fills the store of a slower one, which still gets the
// message it needs to catch up.
TEST(TcpTransport, EarlyMessagesDoNotHoldUpTheOneThatIsWaitedFor) {
  auto mesh = MakeTcpMesh(2);
  ASSERT_NE(mesh, nullptr);
  constexpr int kEarly = 9;
  constexpr size_t kBytes = (1 << 20) + 1;  // together more than twice the store
  std::vector<std::vector<std::byte>> sent, received(kEarly + 1, std::vector<std::byte>(kBytes));
  for (int i = 0; i <= kEarly; ++i) sent.emplace_back(kBytes, static_cast<std::byte>(i + 1));
  mesh->loop(Rank{0}).Post([&] {
    for (uint32_t i = 0; i <= kEarly; ++i) {
      mesh->transport(Rank{0}).Send(Rank{1}, {.operation = 2, .message = i}, sent[i],
                                    [](absl::Status status) { EXPECT_OK(status); });
    }
  });
  for (uint32_t i = kEarly + 1; i-- > 0;) {  // the last first
    Gate ended;
    mesh->loop(Rank{1}).Post([&] {
      mesh->transport(Rank{1}).Recv(Rank{0}, {.operation = 2, .message = i}, received[i],
                                    [&](absl::Status status) {
                                      EXPECT_OK(status);
                                      ended.Open();
                                    });
    });
    ASSERT_TRUE(ended.WaitFor(absl::Seconds(20))) << "message " << i;
    EXPECT_TRUE(received[i] == sent[i]) << "message " << i;
  }
  mesh.reset();
}

TEST(TcpTransport, RefusesCallsThatMakeNoSense) {
  auto mesh = MakeTcpMesh(2);
  ASSERT_NE(mesh, nullptr);
  std::vector<std::byte> bytes(3);
  std::vector<absl::Status> statuses;
  Gate ended;
  mesh->loop(Rank{0}).Post([&] {
    const auto keep = [&](absl::Status status) {
      statuses.push_back(std::move(status));
      if (statuses.size() == 3) ended.Open();
    };
    Transport& transport = mesh->transport(Rank{0});
    transport.Send(Rank{0}, {}, bytes, keep);
    transport.Recv(Rank{7}, {}, bytes, keep);
    transport.Send(Rank{1}, {.message = 1u << 20}, bytes, keep);
  });
  ASSERT_TRUE(ended.WaitFor(absl::Seconds(20)));
  using testing::HasSubstr;
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 0")));
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 7")));
  EXPECT_THAT(statuses[2], StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1048576")));
}

}  // namespace
}  // namespace strata
