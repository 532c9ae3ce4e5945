// The host kernels in bytes per second, next to memcpy of the same footprint: bytes_per_second
// counts every byte that a kernel has to read or write, as memcpy's does (its source and its
// destination), so that a row divided by memcpy's row of the same footprint is its efficiency.

#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/random.h"

namespace strata {
namespace {

// Footprints: within the second-level cache, a lane's largest task, far beyond the caches.
void Footprints(benchmark::internal::Benchmark* bench) {
  for (int64_t bytes : {256 << 10, 1 << 20, 256 << 20}) bench->Arg(bytes);
}

// Elements of a kernel that touches `bytes_per_element` at the benchmark's footprint.
int64_t Elements(const benchmark::State& state, int64_t bytes_per_element) {
  return state.range(0) / bytes_per_element;
}

void SetTouched(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
}

void Memcpy(benchmark::State& state) {
  const int64_t bytes = Elements(state, 2);
  std::vector<char> src(bytes, 1), dst(bytes);
  for (auto _ : state) {
    std::memcpy(dst.data(), src.data(), bytes);
    benchmark::ClobberMemory();
  }
  SetTouched(state, 2 * bytes);
}
BENCHMARK(Memcpy)->Apply(Footprints);

void AddF32(benchmark::State& state) {
  const int64_t elements = Elements(state, 12);
  std::vector<float> a(elements, 1), b(elements, 2), dst(elements);
  for (auto _ : state) {
    Add({DType::kF32, dst.data(), a.data(), b.data(), elements});
    benchmark::ClobberMemory();
  }
  SetTouched(state, 12 * elements);
}
BENCHMARK(AddF32)->Apply(Footprints);

void AddBf16(benchmark::State& state) {
  const int64_t elements = Elements(state, 6);
  std::vector<uint16_t> a(elements, 0x3f80), b(elements, 0x3f80), dst(elements);
  for (auto _ : state) {
    Add({DType::kBf16, dst.data(), a.data(), b.data(), elements});
    benchmark::ClobberMemory();
  }
  SetTouched(state, 6 * elements);
}
BENCHMARK(AddBf16)->Apply(Footprints);

void AccumulateF32(benchmark::State& state) {
  const int64_t elements = Elements(state, 12);
  std::vector<float> src(elements, 1), dst(elements);
  for (auto _ : state) {
    Accumulate({Accumulation::kAdd, dst.data(), DType::kF32, src.data(), elements});
    benchmark::ClobberMemory();
  }
  SetTouched(state, 12 * elements);
}
BENCHMARK(AccumulateF32)->Apply(Footprints);

void AccumulateBf16(benchmark::State& state) {
  const int64_t elements = Elements(state, 10);
  std::vector<uint16_t> src(elements, 0x3f80);
  std::vector<float> dst(elements);
  for (auto _ : state) {
    Accumulate({Accumulation::kAdd, dst.data(), DType::kBf16, src.data(), elements});
    benchmark::ClobberMemory();
  }
  SetTouched(state, 10 * elements);
}
BENCHMARK(AccumulateBf16)->Apply(Footprints);

void ConvertToBf16(benchmark::State& state) {
  const int64_t elements = Elements(state, 6);
  std::vector<float> src(elements, 1);
  std::vector<uint16_t> dst(elements);
  for (auto _ : state) {
    Convert({DType::kBf16, dst.data(), DType::kF32, src.data(), elements});
    benchmark::ClobberMemory();
  }
  SetTouched(state, 6 * elements);
}
BENCHMARK(ConvertToBf16)->Apply(Footprints);

void ScaleF32(benchmark::State& state) {
  const int64_t elements = Elements(state, 8);
  std::vector<float> values(elements, 1);
  for (auto _ : state) {
    Scale({values.data(), 1.0f, elements});
    benchmark::ClobberMemory();
  }
  SetTouched(state, 8 * elements);
}
BENCHMARK(ScaleF32)->Apply(Footprints);

void SumSquares(benchmark::State& state) {
  const int64_t elements = Elements(state, 4);
  const std::vector<float> values(elements, 0.1f);
  NormSum sum;
  for (auto _ : state) {
    sum.AddBlocks(values);
    benchmark::DoNotOptimize(sum);
  }
  SetTouched(state, 4 * elements);
}
BENCHMARK(SumSquares)->Apply(Footprints);

void AdamWStep(benchmark::State& state) {
  const int64_t elements = Elements(state, 28);
  std::vector<float> parameters(elements, 1), first(elements, 0.1f), second(elements, 0.1f);
  const std::vector<float> gradient(elements, 0.1f);
  const AdamWCall call{.parameters = parameters.data(),
                       .first_moment = first.data(),
                       .second_moment = second.data(),
                       .gradient = gradient.data(),
                       .elements = elements,
                       .learning_rate = 1e-4f,
                       .beta1 = 0.9f,
                       .beta2 = 0.95f,
                       .epsilon = 1e-8f,
                       .weight_decay = 0.1f,
                       .beta1_power = 0.5,
                       .beta2_power = 0.5};
  for (auto _ : state) {
    AdamW(call);
    benchmark::ClobberMemory();
  }
  SetTouched(state, 28 * elements);
}
BENCHMARK(AdamWStep)->Apply(Footprints);

void SgdStep(benchmark::State& state) {
  const int64_t elements = Elements(state, 20);
  std::vector<float> parameters(elements, 1), momentum(elements, 0.1f);
  const std::vector<float> gradient(elements, 0.1f);
  const SgdCall call{.parameters = parameters.data(),
                     .momentum = momentum.data(),
                     .gradient = gradient.data(),
                     .elements = elements,
                     .learning_rate = 1e-4f,
                     .momentum_factor = 0.9f};
  for (auto _ : state) {
    Sgd(call);
    benchmark::ClobberMemory();
  }
  SetTouched(state, 20 * elements);
}
BENCHMARK(SgdStep)->Apply(Footprints);

void FillNormalRandom(benchmark::State& state) {
  std::vector<float> values(Elements(state, 4));
  for (auto _ : state) {
    FillNormal(1, "w", 0, values, 0, 1);
    benchmark::ClobberMemory();
  }
  SetTouched(state, 4 * static_cast<int64_t>(values.size()));
}
BENCHMARK(FillNormalRandom)->Arg(1 << 20);

}  // namespace
}  // namespace strata

BENCHMARK_MAIN();
