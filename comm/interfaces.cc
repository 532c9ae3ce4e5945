#include "comm/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr char kKey[] = "set network.interface to one of them";

// In host byte order.
std::optional<uint32_t> ParseIpv4(const std::string& text) {
  in_addr address;
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::string ToText(const in_addr& address) {
  char text[INET_ADDRSTRLEN];
  STRATA_CHECK(inet_ntop(AF_INET, &address, text, sizeof(text)) != nullptr);
  return text;
}

std::string List(const std::vector<Interface>& interfaces) {
  return absl::StrJoin(interfaces, ", ", [](std::string* out, const Interface& interface) {
    absl::StrAppend(out, interface.name, " ", interface.address);
  });
}

bool InSubnet(uint32_t address, uint32_t subnet, int prefix_bits) {
  const uint32_t mask = prefix_bits == 0 ? 0 : ~uint32_t{0} << (32 - prefix_bits);
  return (address & mask) == (subnet & mask);
}

absl::StatusOr<Interface> FindSubnet(const std::string& choice, size_t slash,
                                     const std::vector<Interface>& interfaces) {
  const std::optional<uint32_t> subnet = ParseIpv4(choice.substr(0, slash));
  int prefix_bits = 0;
  if (!subnet || !absl::SimpleAtoi(choice.substr(slash + 1), &prefix_bits) || prefix_bits < 0 ||
      prefix_bits > 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", choice, "\" is not a subnet; write it as 10.0.0.0/24"));
  }
  for (const Interface& interface : interfaces) {
    if (InSubnet(*ParseIpv4(interface.address), *subnet, prefix_bits)) return interface;
  }
  return absl::NotFoundError(
      absl::StrCat("no interface in ", choice, "; there are: ", List(interfaces), "; ", kKey));
}

absl::StatusOr<in_addr> ResolveHost(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(
        absl::StrCat("rendezvous host \"", host, "\": ", gai_strerror(error)));
  }
  const in_addr address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  freeaddrinfo(found);
  return address;
}

// Connecting a datagram socket sends nothing, but makes the kernel choose the source address.
absl::StatusOr<std::string> SourceAddressFor(const std::string& host) {
  STRATA_ASSIGN_OR_RETURN(const in_addr target, ResolveHost(host));
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::InternalError(absl::StrCat("socket: ", strerror(errno)));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr = target;
  address.sin_port = htons(1);
  socklen_t length = sizeof(address);
  const bool found = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  close(fd);
  if (!found) {
    return absl::UnavailableError(
        absl::StrCat("no route to rendezvous host ", host, ": ", strerror(error)));
  }
  return ToText(address.sin_addr);
}

}  // namespace

absl::StatusOr<std::vector<Interface>> LocalInterfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return absl::InternalError(absl::StrCat("list of interfaces: ", strerror(errno)));
  }
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || entry->ifa_netmask == nullptr) continue;
    const auto* mask = reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask);
    interfaces.push_back(
        {.name = entry->ifa_name,
         .address = ToText(reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr),
         .prefix_bits = std::popcount(mask->sin_addr.s_addr)});
  }
  freeifaddrs(first);
  return interfaces;
}

absl::StatusOr<Interface> ResolveInterface(const std::string& choice,
                                           const std::string& rendezvous_host) {
  STRATA_ASSIGN_OR_RETURN(const std::vector<Interface> interfaces, LocalInterfaces());
  if (const size_t slash = choice.find('/'); slash != std::string::npos) {
    return FindSubnet(choice, slash, interfaces);
  }
  std::string wanted = choice;
  if (choice.empty()) {
    STRATA_ASSIGN_OR_RETURN(wanted, SourceAddressFor(rendezvous_host));
  }
  for (const Interface& interface : interfaces) {
    if (interface.name == wanted || interface.address == wanted) return interface;
  }
  const absl::string_view kind =
      ParseIpv4(wanted) ? "no interface has the address" : "no interface";
  return absl::NotFoundError(
      absl::StrCat(kind, " \"", wanted, "\"; there are: ", List(interfaces), "; ", kKey));
}

bool IsLoopback(const std::string& address) {
  const std::optional<uint32_t> parsed = ParseIpv4(address);
  return parsed && InSubnet(*parsed, 0x7f000000, 8);
}

bool IsLinkLocal(const std::string& address) {
  const std::optional<uint32_t> parsed = ParseIpv4(address);
  return parsed && InSubnet(*parsed, 0xa9fe0000, 16);
}

}  // namespace strata
