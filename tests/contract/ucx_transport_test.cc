#include "comm/ucx/ucx_transport.h"

#include <memory>

#include "comm/interfaces.h"
#include "tests/contract/early_messages.h"
#include "tests/contract/socket_mesh.h"
#include "tests/contract/transport_contract.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<TransportMesh> MakeUcxMesh(int size) { return MakeSocketMesh("ucx", size); }

INSTANTIATE_TEST_SUITE_P(Ucx, TransportContract, testing::Values(MakeUcxMesh));
INSTANTIATE_TEST_SUITE_P(Ucx, EarlyMessages, testing::Values(MakeUcxMesh));

TEST(UcxTransport, UnknownInterfaceIsNamed) {
  AsioLoop loop("test");
  EXPECT_THAT(UcxEndpoint::Create(loop, {.name = "e9", .address = "10.9.9.9"}).status(),
              StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("e9"), HasSubstr("UCX"))));
}

TEST(UcxTransport, AbsentPeersAreNamed) {
  const auto interface = ResolveInterface("lo", "");
  ASSERT_OK(interface);
  AsioLoop here("here"), there("there");
  auto endpoint = UcxEndpoint::Create(here, *interface);
  auto silent = UcxEndpoint::Create(there, *interface);
  ASSERT_OK(endpoint);
  ASSERT_OK(silent);
  const auto made =
      (*endpoint)->Connect({.self = Rank{0}, .lane = "test", .timeout = absl::Milliseconds(300)},
                           {{Rank{3}, (*silent)->address(), "hs"}});
  EXPECT_THAT(made.status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("peer 3 (host hs)")));
}

TEST(UcxTransport, DeadPeersAreNamed) {
  const auto interface = ResolveInterface("lo", "");
  ASSERT_OK(interface);
  AsioLoop here("here"), there("there");
  auto endpoint = UcxEndpoint::Create(here, *interface);
  auto dead = UcxEndpoint::Create(there, *interface);
  ASSERT_OK(endpoint);
  ASSERT_OK(dead);
  const std::string address = (*dead)->address();
  dead->reset();
  const auto made = (*endpoint)->Connect(
      {.self = Rank{0}, .lane = "test", .timeout = absl::Seconds(5)}, {{Rank{3}, address, "hs"}});
  EXPECT_FALSE(made.ok());
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("peer 3 (host hs)"));
}

}  // namespace
}  // namespace strata
