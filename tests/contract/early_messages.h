#pragma once

#include "gtest/gtest.h"
#include "tests/contract/transport_contract.h"

namespace strata {

// What transports over sockets obey beside TransportContract ([Note: Ready] in comm/outbox.h). To
// run it, add early_messages.cc to the SOURCES and instantiate it as TransportContract is.
class EarlyMessages : public testing::TestWithParam<MeshFactory> {};

}  // namespace strata
