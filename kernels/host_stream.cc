#include "kernels/host_stream.h"

#include <utility>

#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"

namespace strata {
namespace {

struct Kernels {
  void operator()(const CopyCall& call) const { Copy(call); }
  void operator()(const AddCall& call) const { Add(call); }
  void operator()(const ConvertCall& call) const { Convert(call); }
  void operator()(const AccumulateCall& call) const { Accumulate(call); }
  void operator()(const ScaleCall& call) const { Scale(call); }
  void operator()(const SumSquaresCall& call) const {
    call.sum->AddBlocks({call.src, static_cast<size_t>(call.elements)});
  }
  void operator()(const AdamWCall& call) const { AdamW(call); }
  void operator()(const SgdCall& call) const { Sgd(call); }
};

}  // namespace

HostStream::HostStream(PostFunction post) : post_(std::move(post)) {}

void HostStream::Launch(const KernelCall& call) { std::visit(Kernels(), call); }

void HostStream::Notify(Done done) {
  post_([done = std::move(done)]() mutable { std::move(done)(absl::OkStatus()); });
}

}  // namespace strata
