#pragma once

#include "kernels/stream.h"

namespace strata {

// A Stream on the processor: Launch runs the kernel to its end on the calling thread. Callers on a
// lane keep a call at most 1 MiB long, so that the lane's loop stays responsive. One thread.
class HostStream final : public Stream {
 public:
  // `post` reaches the loop that Notify reports on; it must be callable as long as the stream
  // lives.
  explicit HostStream(PostFunction post);

  void Launch(const KernelCall& call) override;
  void Notify(Done done) override;

 private:
  PostFunction post_;
};

}  // namespace strata
