#include "kernels/block_squares.h"

#include "kernels/types.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // as in elementwise.cc
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_squares.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = 32;

void BlockSquaresBody(const float* src, int64_t blocks, double* sums) {
  const hn::CappedTag<double, kLanes> d;
  const hn::Rebind<float, decltype(d)> floats;
  const int64_t step = hn::Lanes(d);
  HWY_ALIGN double lanes[kLanes];
  for (int64_t block = 0; block < blocks; ++block, src += kBlockElements) {
    for (int64_t lane = 0; lane < kLanes; lane += step) {
      auto sum = hn::Zero(d);
      for (int64_t i = lane; i < kBlockElements; i += kLanes) {
        const auto x = hn::PromoteTo(d, hn::LoadU(floats, src + i));
        sum = hn::Add(sum, hn::Mul(x, x));
      }
      hn::Store(sum, d, lanes + lane);
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    sums[block] = lanes[0];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(BlockSquaresBody);

}  // namespace

void BlockSquares(const float* src, int64_t blocks, double* sums) {
  HWY_DYNAMIC_DISPATCH(BlockSquaresBody)(src, blocks, sums);
}

}  // namespace strata
#endif  // HWY_ONCE
