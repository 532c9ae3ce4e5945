#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata {

// An IPv4 address of this host and the network interface that has it.
struct Interface {
  std::string name;     // "e0"
  std::string address;  // "10.0.0.1"
  int prefix_bits = 0;  // 24 for 10.0.0.0/24
};

// Those that are up, in the kernel's order. An interface with two addresses is listed twice.
absl::StatusOr<std::vector<Interface>> LocalInterfaces();

// The interface that `choice` names: an interface name ("e0"), an address of this host
// ("10.0.0.1"), or a subnet ("10.0.0.0/24"), which may be said once for hosts whose interfaces have
// different names. Empty: the one that the kernel's route to `rendezvous_host` leaves by. The
// host's own name is never asked, since it often resolves to a loopback address. NotFound lists
// what there is. May block for the resolution of `rendezvous_host`.
absl::StatusOr<Interface> ResolveInterface(const std::string& choice,
                                           const std::string& rendezvous_host);

// 127.0.0.0/8 and 169.254.0.0/16: addresses that mean something else, or nothing, on another host.
bool IsLoopback(const std::string& address);
bool IsLinkLocal(const std::string& address);

}  // namespace strata
