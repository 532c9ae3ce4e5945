#include "kernels/random.h"

#include <bit>
#include <cmath>

#include "kernels/sha256.h"

namespace strata {
namespace {

// Natural logarithm of a normal positive number, to about 1e-15: x = m·2^e with m in [0.7, 1.42),
// log m = 2·atanh((m - 1)/(m + 1)) by its series.
double Log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
  if (m > 1.4142135623730951) {
    m = m / 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return 2 * s * series + exponent * 0.69314718055994531;
}

// Algorithm AS 241, PPND7 (Wichura, Applied Statistics 37, 1988): rational approximations of the
// inverse normal distribution function around the centre, and of its tail in sqrt(-log p).
double CentralQuantile(double q) {
  const double r = 0.180625 - q * q;
  return q *
         (((5.9109374720e+01 * r + 1.5929113202e+02) * r + 5.0434271938e+01) * r +
          3.3871327179e+00) /
         (((6.7187563600e+01 * r + 7.8757757664e+01) * r + 1.7895169469e+01) * r + 1.0);
}

double TailQuantile(double p) {
  double r = std::sqrt(-Log(p));
  if (r <= 5) {
    r = r - 1.6;
    return (((1.7023821103e-01 * r + 1.3067284816e+00) * r + 2.7568153900e+00) * r +
            1.4234372777e+00) /
           ((1.2021132975e-01 * r + 7.3700164250e-01) * r + 1.0);
  }
  r = r - 5;
  return (((1.7337203997e-02 * r + 4.2868294337e-01) * r + 3.0812263860e+00) * r +
          6.6579051150e+00) /
         ((1.2258202635e-02 * r + 2.4197894225e-01) * r + 1.0);
}

uint64_t StreamOf(absl::string_view name) {
  Sha256 sha;
  sha.Update(std::as_bytes(std::span(name.data(), name.size())));
  const std::array<std::byte, 32> digest = sha.Digest();
  uint64_t stream = 0;
  for (int i = 0; i < 8; ++i) stream |= std::to_integer<uint64_t>(digest[i]) << (8 * i);
  return stream;
}

// values[i] = distribution(word of element first + i).
template <typename Distribution>
void Fill(uint64_t seed, absl::string_view name, int64_t first, std::span<float> values,
          Distribution distribution) {
  const uint64_t stream = StreamOf(name);
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  uint64_t element = first;
  std::array<uint32_t, 4> words = {};
  for (size_t i = 0; i < values.size(); ++i, ++element) {
    const uint64_t group = element / 4;
    if (i == 0 || element % 4 == 0) {
      words = Philox({low(group), high(group), low(stream), high(stream)}, {low(seed), high(seed)});
    }
    values[i] = distribution(words[element % 4]);
  }
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

float UniformFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

double Normal(uint32_t word) {
  const double p = (word + 0.5) * 0x1p-32;
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) return CentralQuantile(q);
  return q < 0 ? -TailQuantile(p) : TailQuantile(1.0 - p);
}

void FillNormal(uint64_t seed, absl::string_view name, int64_t first, std::span<float> values,
                double mean, double stddev) {
  Fill(seed, name, first, values,
       [mean, stddev](uint32_t word) { return static_cast<float>(mean + stddev * Normal(word)); });
}

void FillUniform(uint64_t seed, absl::string_view name, int64_t first, std::span<float> values,
                 double low, double high) {
  const double width = high - low;
  Fill(seed, name, first, values, [low, width](uint32_t word) {
    return static_cast<float>(low + width * UniformFloat(word));
  });
}

}  // namespace strata
