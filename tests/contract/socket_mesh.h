#pragma once

#include <memory>
#include <string>

#include "tests/contract/transport_contract.h"

namespace strata {

// A mesh over the loopback interface of the transport that MakeTransportFactory calls `transport`.
// Host of rank n is "h<n>", the lane "test".
std::unique_ptr<TransportMesh> MakeSocketMesh(const std::string& transport, int size);

}  // namespace strata
