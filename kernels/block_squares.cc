#include "kernels/block_squares.h"

#include "kernels/types.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)  // as in elementwise.cc
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_squares.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = 32;
constexpr int64_t kGroup = kLanes / 4;  // lanes side by side: the widest vector there is

// Elements between what is summed and what is fetched into the cache: the chains of additions leave
// the processor too little room to look ahead by itself (from memory, 1.6 times slower). Fetching
// what lies behind the end does no harm.
constexpr int64_t kAhead = 2048;

using Doubles = hn::CappedTag<double, kGroup>;

HWY_INLINE hn::Vec<Doubles> AddSquare(hn::Vec<Doubles> sum, const float* src) {
  const hn::Rebind<float, Doubles> floats;
  const auto x = hn::PromoteTo(Doubles(), hn::LoadU(floats, src));
  return hn::Add(sum, hn::Mul(x, x));
}

void BlockSquaresBody(const float* src, int64_t blocks, double* sums) {
  const Doubles d;
  const int64_t step = hn::Lanes(d);
  HWY_ALIGN double lanes[kGroup];
  for (int64_t block = 0; block < blocks; ++block, src += kBlockElements) {
    for (int64_t lane = 0; lane < kGroup; lane += step) {
      auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (int64_t i = lane; i < kBlockElements; i += kLanes) {
        hwy::Prefetch(src + i + kAhead);
        hwy::Prefetch(src + i + kAhead + kLanes / 2);
        sum0 = AddSquare(sum0, src + i);
        sum1 = AddSquare(sum1, src + i + kGroup);
        sum2 = AddSquare(sum2, src + i + 2 * kGroup);
        sum3 = AddSquare(sum3, src + i + 3 * kGroup);
      }
      hn::Store(hn::Add(hn::Add(sum0, sum2), hn::Add(sum1, sum3)), d, lanes + lane);
    }
    for (int64_t half = kGroup / 2; half > 0; half /= 2) {
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
