#pragma once

#include <string>

namespace strata {

// The host's name, for messages.
std::string HostName();

// Equal for processes that can share memory and reach each other's Unix sockets: boot id, host name
// and network namespace.
std::string NodeName();

}  // namespace strata
