#include "kernels/optimizer.h"

#include <algorithm>
#include <iterator>

#include "gtest/gtest.h"
#include "tests/unit/kernels/kernel_test_support.h"

namespace strata {
namespace {

struct State {
  std::vector<float> parameters, first, second, gradient;

  explicit State(int64_t elements)
      : parameters(RandomFloats(elements, 1)), first(elements), second(elements) {}

  AdamWCall AdamW(AdamWCall call) {
    call.parameters = parameters.data();
    call.first_moment = first.data();
    call.second_moment = second.data();
    call.gradient = gradient.data();
    call.elements = static_cast<int64_t>(parameters.size());
    return call;
  }
  SgdCall Sgd(SgdCall call) {
    call.parameters = parameters.data();
    call.momentum = call.momentum_factor == 0 ? nullptr : first.data();
    call.gradient = gradient.data();
    call.elements = static_cast<int64_t>(parameters.size());
    return call;
  }
};

// One operation per statement, as kernels/optimizer.h lists them.
void ReferenceAdamW(const AdamWCall& c) {
  const float decay =
      static_cast<float>(1.0 - static_cast<double>(c.learning_rate) * c.weight_decay);
  const float rest1 = static_cast<float>(1.0 - static_cast<double>(c.beta1));
  const float rest2 = static_cast<float>(1.0 - static_cast<double>(c.beta2));
  const float correction = static_cast<float>(std::sqrt(1.0 - c.beta2_power));
  const float step =
      static_cast<float>(-static_cast<double>(c.learning_rate) / (1.0 - c.beta1_power));
  for (int64_t i = 0; i < c.elements; ++i) {
    const float g = c.gradient[i] * c.clip;
    const float p = c.parameters[i] * decay;
    const float old_m = c.first_moment[i] * c.beta1, new_m = g * rest1;
    const float m = old_m + new_m;
    const float old_v = c.second_moment[i] * c.beta2;
    float new_v = rest2 * g;
    new_v = new_v * g;
    const float v = old_v + new_v;
    const float root = std::sqrt(v), scaled = root / correction;
    const float denominator = scaled + c.epsilon;
    const float numerator = step * m, update = numerator / denominator;
    c.parameters[i] = p + update;
    c.first_moment[i] = m;
    c.second_moment[i] = v;
  }
}

void ReferenceSgd(const SgdCall& c) {
  for (int64_t i = 0; i < c.elements; ++i) {
    float m = c.gradient[i] * c.clip;
    if (c.weight_decay != 0) {
      const float decay = c.parameters[i] * c.weight_decay;
      m = m + decay;
    }
    if (c.momentum != nullptr) {
      const float old = c.momentum[i] * c.momentum_factor;
      m = old + m;
      c.momentum[i] = m;
    }
    const float update = m * -c.learning_rate;
    c.parameters[i] = c.parameters[i] + update;
  }
}

constexpr AdamWCall kAdamW = {.clip = 0.7f,
                              .learning_rate = 3e-4f,
                              .beta1 = 0.9f,
                              .beta2 = 0.95f,
                              .epsilon = 1e-8f,
                              .weight_decay = 0.1f};

void ExpectSameState(const State& actual, const State& expected) {
  ExpectSameBits(actual.parameters, expected.parameters);
  ExpectSameBits(actual.first, expected.first);
  ExpectSameBits(actual.second, expected.second);
}

TEST(AdamW, EqualsTheReferenceBitForBit) {
  ForEachTarget([] {
    for (int64_t n : kSizes) {
      State actual(n), expected(n);
      AdamWCall call = kAdamW;
      double power1 = 1, power2 = 1;
      for (uint32_t step = 1; step <= 3; ++step) {
        call.beta1_power = power1 *= call.beta1;
        call.beta2_power = power2 *= call.beta2;
        actual.gradient = expected.gradient = RandomFloats(n, 10 + step);
        AdamW(actual.AdamW(call));
        ReferenceAdamW(expected.AdamW(call));
      }
      ExpectSameState(actual, expected);
    }
  });
}

TEST(AdamW, EdgeGradients) {
  ForEachTarget([] {
    const int64_t n = std::size(kEdges);
    State actual(n), expected(n);
    actual.gradient.assign(std::begin(kEdges), std::end(kEdges));
    expected.gradient = actual.gradient;
    AdamWCall call = kAdamW;
    call.clip = 1;
    call.beta1_power = call.beta1;
    call.beta2_power = call.beta2;
    AdamW(actual.AdamW(call));
    ReferenceAdamW(expected.AdamW(call));
    ExpectSameState(actual, expected);
  });
}

// Values worked out by hand: every intermediate is a power of two or a short sum of them.
TEST(AdamW, FirstStepByHand) {
  State state(1);
  state.parameters = {4};
  state.gradient = {2};
  AdamW(state.AdamW({.clip = 1,
                     .learning_rate = 0.5f,
                     .beta1 = 0.5f,
                     .beta2 = 0.75f,
                     .epsilon = 1,
                     .weight_decay = 0.25f,
                     .beta1_power = 0.5,
                     .beta2_power = 0.75}));
  EXPECT_EQ(state.first[0], 1);   // 0.5 · 2
  EXPECT_EQ(state.second[0], 1);  // 0.25 · 2 · 2
  // 4 · (1 - 0.125) - (0.5 / 0.5) · 1 / (1 / 0.5 + 1)
  EXPECT_EQ(state.parameters[0], 3.5f + -1.0f / 3.0f);
}

TEST(AdamW, ZeroGradientDecaysOnly) {
  State state(65);
  state.gradient.assign(65, 0);
  auto expected = state.parameters;
  AdamWCall call = kAdamW;
  call.beta1_power = call.beta1;
  call.beta2_power = call.beta2;
  for (float& p : expected) p *= static_cast<float>(1.0 - static_cast<double>(3e-4f) * 0.1f);
  AdamW(state.AdamW(call));
  ExpectSameBits(state.parameters, expected);
}

TEST(AdamW, BitsDoNotDependOnHowARangeIsCut) {
  const int64_t n = 1000;
  AdamWCall call = kAdamW;
  call.beta1_power = call.beta1;
  call.beta2_power = call.beta2;
  State whole(n);
  whole.first = RandomFloats(n, 3);
  whole.second.assign(n, 0.5f);
  whole.gradient = RandomFloats(n, 4);
  State pieces = whole;
  AdamW(whole.AdamW(call));
  for (int64_t first = 0, piece = 1; first < n; first += piece, piece = piece * 2 + 1) {
    AdamWCall part = pieces.AdamW(call);
    part.parameters += first;
    part.first_moment += first;
    part.second_moment += first;
    part.gradient += first;
    part.elements = std::min(piece, n - first);
    AdamW(part);
  }
  ExpectSameState(pieces, whole);
}

TEST(Sgd, EqualsTheReferenceBitForBit) {
  const std::vector<SgdCall> calls = {
      {.clip = 1, .learning_rate = 0.1f},
      {.clip = 0.3f, .learning_rate = 0.1f, .weight_decay = 0.01f},
      {.clip = 0.3f, .learning_rate = 0.1f, .momentum_factor = 0.9f},
      {.clip = 0.3f, .learning_rate = 0.1f, .momentum_factor = 0.9f, .weight_decay = 0.01f}};
  ForEachTarget([&calls] {
    for (const SgdCall& call : calls) {
      for (int64_t n : kSizes) {
        State actual(n), expected(n);
        for (uint32_t step = 1; step <= 2; ++step) {
          actual.gradient = expected.gradient = RandomFloats(n, 20 + step);
          Sgd(actual.Sgd(call));
          ReferenceSgd(expected.Sgd(call));
        }
        ExpectSameState(actual, expected);
      }
    }
  });
}

TEST(Sgd, WithoutWeightDecayAnInfiniteParameterStaysWhatItIs) {
  State state(1);
  state.parameters = {INFINITY};
  state.gradient = {1};
  Sgd(state.Sgd({.clip = 1, .learning_rate = 1}));
  EXPECT_EQ(state.parameters[0], INFINITY);
}

}  // namespace
}  // namespace strata
