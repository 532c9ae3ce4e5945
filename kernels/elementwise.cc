#include "kernels/elementwise.h"

#include <cstring>

#include "kernels/padded_block.h"

// What remains: no vectors, SSE4, AVX2 and AVX-512 on x86. The others add instructions that nothing
// here uses, and time to compile.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<uint16_t, Words>;

// Each body takes a multiple of kBodyElements elements.

// Fetches the cache line that the loop reaches 8 KiB later. From memory, the processor alone does
// not keep enough of them on their way where the destination is a third stream or the arithmetic is
// long (1.2 to 1.4 times slower). Behind the end it does no harm.
HWY_INLINE void FetchAhead(const void* at) {
  hwy::Prefetch(static_cast<const char*>(at) + (8 << 10));
}

HWY_INLINE hn::Vec<Floats> LoadBf16(const uint16_t* src) {
  const auto wide = hn::PromoteTo(Words(), hn::LoadU(Halves(), src));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(wide));
}

// As F32ToBf16 in kernels/bf16.h, with the result in the upper half of each word; the lower half
// is of no meaning.
HWY_INLINE hn::Vec<Words> RoundToUpperHalf(hn::Vec<Floats> value) {
  const Words words;
  const auto bits = hn::BitCast(words, value);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(bits, hn::Add(even, hn::Set(words, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(words, 0x400000));
  return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, rounded);
}

HWY_INLINE void StoreBf16(hn::Vec<Floats> value, uint16_t* dst) {
  const auto halves = hn::ShiftRight<16>(RoundToUpperHalf(value));
  hn::StoreU(hn::TruncateTo(Halves(), halves), Halves(), dst);
}

void AddF32(float* dst, const float* a, const float* b, int64_t elements) {
  const Floats d;
  const int64_t step = hn::Lanes(d);
  for (int64_t i = 0; i < elements; i += step) {
    FetchAhead(dst + i);
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, dst + i);
  }
}

HWY_INLINE hn::Vec<Words> LoadPairs(const uint16_t* src) {
  return hn::LoadU(Words(), reinterpret_cast<const uint32_t*>(src));
}

// Two elements per word, the upper and the lower one apart: no element changes its place.
void AddBf16(uint16_t* dst, const uint16_t* a, const uint16_t* b, int64_t elements) {
  const Words words;
  const Floats floats;
  const auto upper_half = hn::Set(words, 0xffff0000);
  const int64_t step = 2 * hn::Lanes(words);
  for (int64_t i = 0; i < elements; i += step) {
    const auto x = LoadPairs(a + i), y = LoadPairs(b + i);
    const auto upper = RoundToUpperHalf(hn::Add(hn::BitCast(floats, hn::And(x, upper_half)),
                                                hn::BitCast(floats, hn::And(y, upper_half))));
    const auto lower = RoundToUpperHalf(hn::Add(hn::BitCast(floats, hn::ShiftLeft<16>(x)),
                                                hn::BitCast(floats, hn::ShiftLeft<16>(y))));
    const auto sum = hn::Or(hn::And(upper, upper_half), hn::ShiftRight<16>(lower));
    hn::StoreU(sum, words, reinterpret_cast<uint32_t*>(dst + i));
  }
}

void Widen(float* dst, const uint16_t* src, int64_t elements) {
  const int64_t step = hn::Lanes(Floats());
  for (int64_t i = 0; i < elements; i += step) hn::StoreU(LoadBf16(src + i), Floats(), dst + i);
}

void Narrow(uint16_t* dst, const float* src, int64_t elements) {
  const int64_t step = hn::Lanes(Floats());
  for (int64_t i = 0; i < elements; i += step) {
    FetchAhead(src + i);
    StoreBf16(hn::LoadU(Floats(), src + i), dst + i);
  }
}

void AddWidened(float* dst, const float* a, const uint16_t* b, int64_t elements) {
  const Floats d;
  const int64_t step = hn::Lanes(d);
  for (int64_t i = 0; i < elements; i += step) {
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), LoadBf16(b + i)), d, dst + i);
  }
}

void ScaleF32(float* dst, float factor, int64_t elements) {
  const Floats d;
  const auto factors = hn::Set(d, factor);
  const int64_t step = hn::Lanes(d);
  for (int64_t i = 0; i < elements; i += step) {
    hn::StoreU(hn::Mul(hn::LoadU(d, dst + i), factors), d, dst + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(AddF32);
HWY_EXPORT(AddBf16);
HWY_EXPORT(Widen);
HWY_EXPORT(Narrow);
HWY_EXPORT(AddWidened);
HWY_EXPORT(ScaleF32);

// body(dst, src, elements) over a whole call, see [Note: Padded tails].
template <typename To, typename From, typename Body>
void ForEach(To* dst, const From* src, int64_t elements, Body body) {
  const int64_t whole = WholeBodies(elements), rest = elements - whole;
  if (whole > 0) body(dst, src, whole);
  if (rest == 0) return;
  PaddedBlock<To> to(nullptr, 0);
  PaddedBlock<From> from(src + whole, rest);
  body(to.data(), from.data(), kBodyElements);
  to.CopyTo(dst + whole, rest);
}

// The same with two sources: body(dst, a, b, elements).
template <typename To, typename B, typename Body>
void ForEach(To* dst, const To* a, const B* b, int64_t elements, Body body) {
  const int64_t whole = WholeBodies(elements), rest = elements - whole;
  if (whole > 0) body(dst, a, b, whole);
  if (rest == 0) return;
  PaddedBlock<To> to(a + whole, rest);
  PaddedBlock<B> from(b + whole, rest);
  body(to.data(), to.data(), from.data(), kBodyElements);
  to.CopyTo(dst + whole, rest);
}

const uint16_t* Bf16(const void* data) { return static_cast<const uint16_t*>(data); }
const float* F32(const void* data) { return static_cast<const float*>(data); }

}  // namespace

void Copy(const CopyCall& call) {
  if (call.bytes > 0 && call.dst != call.src) std::memcpy(call.dst, call.src, call.bytes);
}

void Add(const AddCall& call) {
  if (call.dtype == DType::kF32) {
    ForEach(static_cast<float*>(call.dst), F32(call.a), F32(call.b), call.elements,
            HWY_DYNAMIC_DISPATCH(AddF32));
  } else {
    ForEach(static_cast<uint16_t*>(call.dst), Bf16(call.a), Bf16(call.b), call.elements,
            HWY_DYNAMIC_DISPATCH(AddBf16));
  }
}

void Convert(const ConvertCall& call) {
  if (call.dst_dtype == call.src_dtype) {
    Copy({call.dst, call.src, call.elements * SizeOf(call.src_dtype)});
  } else if (call.dst_dtype == DType::kF32) {
    ForEach(static_cast<float*>(call.dst), Bf16(call.src), call.elements,
            HWY_DYNAMIC_DISPATCH(Widen));
  } else {
    ForEach(static_cast<uint16_t*>(call.dst), F32(call.src), call.elements,
            HWY_DYNAMIC_DISPATCH(Narrow));
  }
}

void Accumulate(const AccumulateCall& call) {
  if (call.mode == Accumulation::kSet) {
    Convert({DType::kF32, call.dst, call.src_dtype, call.src, call.elements});
  } else if (call.src_dtype == DType::kF32) {
    Add({DType::kF32, call.dst, call.dst, call.src, call.elements});
  } else {
    ForEach(call.dst, call.dst, Bf16(call.src), call.elements, HWY_DYNAMIC_DISPATCH(AddWidened));
  }
}

void Scale(const ScaleCall& call) {
  const auto body = HWY_DYNAMIC_DISPATCH(ScaleF32);
  const int64_t whole = WholeBodies(call.elements), rest = call.elements - whole;
  if (whole > 0) body(call.dst, call.factor, whole);
  if (rest == 0) return;
  PaddedBlock<float> tail(call.dst + whole, rest);
  body(tail.data(), call.factor, kBodyElements);
  tail.CopyTo(call.dst + whole, rest);
}

}  // namespace strata
#endif  // HWY_ONCE
