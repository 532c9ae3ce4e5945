#include "comm/sim/sim_stream.h"

#include <utility>
#include <variant>

namespace strata {
namespace {

struct Touched {
  int64_t operator()(const CopyCall& call) const { return 2 * call.bytes; }
  int64_t operator()(const AddCall& call) const { return 3 * call.elements * SizeOf(call.dtype); }
  int64_t operator()(const ConvertCall& call) const {
    return call.elements * (SizeOf(call.dst_dtype) + SizeOf(call.src_dtype));
  }
  int64_t operator()(const AccumulateCall& call) const {
    const int64_t read_back = call.mode == Accumulation::kAdd ? 4 : 0;
    return call.elements * (4 + read_back + SizeOf(call.src_dtype));
  }
  int64_t operator()(const ScaleCall& call) const { return 8 * call.elements; }
  int64_t operator()(const SumSquaresCall& call) const { return 4 * call.elements; }
  int64_t operator()(const AdamWCall& call) const { return 28 * call.elements; }
  int64_t operator()(const SgdCall& call) const {
    return (call.momentum == nullptr ? 12 : 20) * call.elements;
  }
};

}  // namespace

int64_t BytesTouched(const KernelCall& call) { return std::visit(Touched{}, call); }

SimStream::SimStream(SimLoop& loop, int64_t bytes_per_second)
    : loop_(loop),
      bytes_per_second_(bytes_per_second),
      host_([&loop](Task task) { loop.Post(std::move(task)); }) {}

void SimStream::Launch(const KernelCall& call) {
  host_.Launch(call);
  if (bytes_per_second_ == 0) return;
  loop_.Occupy(absl::Nanoseconds(static_cast<double>(BytesTouched(call)) * 1e9 /
                                 static_cast<double>(bytes_per_second_)));
}

void SimStream::Notify(Done done) { host_.Notify(std::move(done)); }

}  // namespace strata
