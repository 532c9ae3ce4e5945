#include "comm/interfaces.h"

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Interfaces, LoopbackIsFoundByNameAddressSubnetAndRoute) {
  for (const char* choice : {"lo", "127.0.0.1", "127.0.0.0/8", ""}) {
    const auto found = ResolveInterface(choice, "127.0.0.1");
    ASSERT_OK(found) << choice;
    EXPECT_EQ(found->name, "lo") << choice;
    EXPECT_EQ(found->address, "127.0.0.1") << choice;
    EXPECT_EQ(found->prefix_bits, 8) << choice;
  }
}

TEST(Interfaces, ErrorsListWhatThereIs) {
  EXPECT_THAT(
      ResolveInterface("e9", ""),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("\"e9\""), HasSubstr("lo 127.0.0.1"),
                                                  HasSubstr("network.interface"))));
  EXPECT_THAT(ResolveInterface("203.0.113.1", ""),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("203.0.113.1"), HasSubstr("lo 127.0.0.1"))));
  EXPECT_THAT(ResolveInterface("203.0.113.0/24", ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("lo 127.0.0.1")));
  EXPECT_THAT(ResolveInterface("203.0.113.0/33", ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("203.0.113.0/33")));
}

TEST(Interfaces, KindsOfAddresses) {
  EXPECT_TRUE(IsLoopback("127.3.2.1"));
  EXPECT_FALSE(IsLoopback("128.0.0.1"));
  EXPECT_TRUE(IsLinkLocal("169.254.7.7"));
  EXPECT_FALSE(IsLinkLocal("169.253.7.7"));
}

}  // namespace
}  // namespace strata
