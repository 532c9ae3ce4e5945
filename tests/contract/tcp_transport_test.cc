#include "comm/tcp/tcp_transport.h"

#include <memory>
#include <vector>

#include "tests/contract/early_messages.h"
#include "tests/contract/socket_mesh.h"
#include "tests/contract/transport_contract.h"
#include "tests/support/gate.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

std::unique_ptr<TransportMesh> MakeTcpMesh(int size) { return MakeSocketMesh("tcp", size); }

INSTANTIATE_TEST_SUITE_P(Tcp, TransportContract, testing::Values(MakeTcpMesh));
INSTANTIATE_TEST_SUITE_P(Tcp, EarlyMessages, testing::Values(MakeTcpMesh));

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
