#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "comm/loop.h"
#include "comm/transport.h"
#include "gtest/gtest.h"

namespace strata {

// What every Transport obeys, as a suite of tests over any way to make some. To run it on a
// transport, add transport_contract.cc to the SOURCES of a test binary of ring `contract`, and
// write
//   INSTANTIATE_TEST_SUITE_P(Tcp, TransportContract, testing::Values(MakeTcpMesh));

// `size` transports of one lane, each connected to all others, each with a loop of its own.
// Destroyed from the test thread, with operations pending or not.
class TransportMesh {
 public:
  virtual ~TransportMesh() = default;

  virtual Loop& loop(Rank rank) = 0;

  // Used on loop(rank) only.
  virtual Transport& transport(Rank rank) = 0;

  // Lets the loops go on until `done` says true (asked from the test thread; it is thread-safe) or
  // `limit` has passed, in real or virtual time; returns whether it said true.
  virtual bool WaitUntil(absl::FunctionRef<bool()> done, absl::Duration limit) = 0;

  // Lets `rank` vanish as a killed process does: without Abort or Close, its connections break.
  // Called from the test thread; transport(rank) is not used afterwards.
  virtual void Vanish(Rank rank) = 0;
};

// WaitUntil for loops that are threads.
bool WaitInRealTime(absl::FunctionRef<bool()> done, absl::Duration limit);

// Makes a mesh of `size` ranks, all of whose transports are ready to send. Fails the test and
// returns null if it cannot. Ranks are 0 … size-1; how they spread over nodes is the mesh's affair.
using MeshFactory = std::unique_ptr<TransportMesh> (*)(int size);

class TransportContract : public testing::TestWithParam<MeshFactory> {
 protected:
  // Makes the mesh of the test.
  void Connect(int size);

  std::unique_ptr<TransportMesh> mesh_;
};

}  // namespace strata
