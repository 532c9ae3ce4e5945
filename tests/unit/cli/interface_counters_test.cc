#include "cli/train/interface_counters.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

// A datagram to this host itself.
void SendOnLoopback(size_t bytes) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::string payload(bytes, 'x');
  ASSERT_EQ(sendto(fd, payload.data(), bytes, 0, reinterpret_cast<sockaddr*>(&address), size),
            static_cast<ssize_t>(bytes));
  ASSERT_EQ(recv(fd, payload.data(), bytes, 0), static_cast<ssize_t>(bytes));
  close(fd);
}

TEST(InterfaceCountersTest, CountWhatGoesOverTheInterface) {
  const absl::StatusOr<InterfaceBytes> before = ReadInterfaceBytes("lo");
  ASSERT_OK(before);
  SendOnLoopback(20011);
  const absl::StatusOr<InterfaceBytes> after = ReadInterfaceBytes("lo");
  ASSERT_OK(after);
  EXPECT_GE(after->sent, before->sent + 20011);
  EXPECT_GE(after->received, before->received + 20011);
}

TEST(InterfaceCountersTest, AnInterfaceThatDoesNotExistIsNamed) {
  EXPECT_THAT(ReadInterfaceBytes("nosuch0"),
              StatusIs(absl::StatusCode::kNotFound, testing::HasSubstr("nosuch0")));
}

}  // namespace
}  // namespace strata
