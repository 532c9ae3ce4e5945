#pragma once

#include "comm/sim/sim_world.h"
#include "kernels/host_stream.h"
#include "kernels/stream.h"

namespace strata {

// A Stream whose kernels run really, on this thread, and occupy their loop for the bytes that they
// read and write at a rate.
class SimStream final : public Stream {
 public:
  // `bytes_per_second` 0: kernels take no time. `loop` outlives the stream.
  SimStream(SimLoop& loop, int64_t bytes_per_second);

  void Launch(const KernelCall& call) override;
  void Notify(Done done) override;

 private:
  SimLoop& loop_;
  const int64_t bytes_per_second_;
  HostStream host_;
};

// Bytes that a call reads and writes.
int64_t BytesTouched(const KernelCall& call);

}  // namespace strata
