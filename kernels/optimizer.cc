#include "kernels/optimizer.h"

#include <cmath>

#include "kernels/optimizer_factors.h"
#include "kernels/padded_block.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)  // as in elementwise.cc
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace strata {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Each body takes a multiple of kBodyElements elements. Products and sums are separate operations:
// a fused one rounds once where these round twice.

void AdamWBody(float* parameters, float* first_moment, float* second_moment, const float* gradient,
               int64_t elements, const AdamWFactors& factors) {
  const hn::ScalableTag<float> d;
  const auto clip = hn::Set(d, factors.clip), decay = hn::Set(d, factors.decay);
  const auto beta1 = hn::Set(d, factors.beta1), beta2 = hn::Set(d, factors.beta2);
  const auto one_minus_beta1 = hn::Set(d, factors.one_minus_beta1);
  const auto one_minus_beta2 = hn::Set(d, factors.one_minus_beta2);
  const auto sqrt_correction = hn::Set(d, factors.sqrt_correction);
  const auto epsilon = hn::Set(d, factors.epsilon);
  const auto minus_step_size = hn::Set(d, factors.minus_step_size);
  const int64_t step = hn::Lanes(d);
  for (int64_t i = 0; i < elements; i += step) {
    const auto g = hn::Mul(hn::LoadU(d, gradient + i), clip);
    const auto p = hn::Mul(hn::LoadU(d, parameters + i), decay);
    const auto m =
        hn::Add(hn::Mul(hn::LoadU(d, first_moment + i), beta1), hn::Mul(g, one_minus_beta1));
    const auto v = hn::Add(hn::Mul(hn::LoadU(d, second_moment + i), beta2),
                           hn::Mul(hn::Mul(one_minus_beta2, g), g));
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), sqrt_correction), epsilon);
    hn::StoreU(m, d, first_moment + i);
    hn::StoreU(v, d, second_moment + i);
    hn::StoreU(hn::Add(p, hn::Div(hn::Mul(minus_step_size, m), denominator)), d, parameters + i);
  }
}

// One branch per call, none per element: what is not used is not read.
void SgdBody(float* parameters, float* momentum, const float* gradient, int64_t elements,
             const SgdFactors& factors) {
  const hn::ScalableTag<float> d;
  const auto clip = hn::Set(d, factors.clip);
  const auto weight_decay = hn::Set(d, factors.weight_decay);
  const auto momentum_factor = hn::Set(d, factors.momentum_factor);
  const auto minus_learning_rate = hn::Set(d, factors.minus_learning_rate);
  const int64_t step = hn::Lanes(d);
  for (int64_t i = 0; i < elements; i += step) {
    const auto p = hn::LoadU(d, parameters + i);
    auto m = hn::Mul(hn::LoadU(d, gradient + i), clip);
    if (factors.weight_decay != 0) m = hn::Add(m, hn::Mul(p, weight_decay));
    if (momentum != nullptr) {
      m = hn::Add(hn::Mul(hn::LoadU(d, momentum + i), momentum_factor), m);
      hn::StoreU(m, d, momentum + i);
    }
    hn::StoreU(hn::Add(p, hn::Mul(m, minus_learning_rate)), d, parameters + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace strata
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {
namespace {

HWY_EXPORT(AdamWBody);
HWY_EXPORT(SgdBody);

}  // namespace

AdamWFactors FactorsOf(const AdamWCall& call) {
  const double learning_rate = call.learning_rate;
  return {
      .clip = call.clip,
      .decay = static_cast<float>(1.0 - learning_rate * call.weight_decay),
      .beta1 = call.beta1,
      .one_minus_beta1 = static_cast<float>(1.0 - call.beta1),
      .beta2 = call.beta2,
      .one_minus_beta2 = static_cast<float>(1.0 - call.beta2),
      .sqrt_correction = static_cast<float>(std::sqrt(1.0 - call.beta2_power)),
      .epsilon = call.epsilon,
      .minus_step_size = static_cast<float>(-learning_rate / (1.0 - call.beta1_power)),
  };
}

SgdFactors FactorsOf(const SgdCall& call) {
  return {.clip = call.clip,
          .weight_decay = call.weight_decay,
          .momentum_factor = call.momentum_factor,
          .minus_learning_rate = -call.learning_rate};
}

void AdamW(const AdamWCall& call) {
  const AdamWFactors factors = FactorsOf(call);
  const auto body = HWY_DYNAMIC_DISPATCH(AdamWBody);
  const int64_t whole = WholeBodies(call.elements), rest = call.elements - whole;
  if (whole > 0) {
    body(call.parameters, call.first_moment, call.second_moment, call.gradient, whole, factors);
  }
  if (rest == 0) return;
  PaddedBlock<float> parameters(call.parameters + whole, rest);
  PaddedBlock<float> first(call.first_moment + whole, rest);
  PaddedBlock<float> second(call.second_moment + whole, rest);
  PaddedBlock<float> gradient(call.gradient + whole, rest);
  body(parameters.data(), first.data(), second.data(), gradient.data(), kBodyElements, factors);
  parameters.CopyTo(call.parameters + whole, rest);
  first.CopyTo(call.first_moment + whole, rest);
  second.CopyTo(call.second_moment + whole, rest);
}

void Sgd(const SgdCall& call) {
  const SgdFactors factors = FactorsOf(call);
  const auto body = HWY_DYNAMIC_DISPATCH(SgdBody);
  const bool has_momentum = call.momentum != nullptr;
  const int64_t whole = WholeBodies(call.elements), rest = call.elements - whole;
  if (whole > 0) body(call.parameters, call.momentum, call.gradient, whole, factors);
  if (rest == 0) return;
  PaddedBlock<float> parameters(call.parameters + whole, rest);
  PaddedBlock<float> momentum(has_momentum ? call.momentum + whole : nullptr,
                              has_momentum ? rest : 0);
  PaddedBlock<float> gradient(call.gradient + whole, rest);
  body(parameters.data(), has_momentum ? momentum.data() : nullptr, gradient.data(), kBodyElements,
       factors);
  parameters.CopyTo(call.parameters + whole, rest);
  if (has_momentum) momentum.CopyTo(call.momentum + whole, rest);
}

}  // namespace strata
#endif  // HWY_ONCE
