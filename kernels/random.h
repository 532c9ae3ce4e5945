#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"

namespace strata {

// [Note: Counter-based random numbers] Element e of a parameter gets word e mod 4 of Philox4x32-10
// with the seed as key and (e div 4, stream) as counter; `stream` is the first 8 bytes of SHA-256
// of the parameter's name, little endian. A value so depends on seed, name and e alone: whoever
// fills whatever range in whatever order gets the same bits. Everything below uses + - · / and sqrt
// only, no function of the C library whose last bit differs between systems. Any thread.

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The upper 24 bits of `word` as a fraction in [0, 1).
float UniformFloat(uint32_t word);

// Standard normal: the inverse of its distribution function at (word + 1/2) / 2^32, with a relative
// error below 1e-6. Magnitudes reach 6.34.
double Normal(uint32_t word);

// values[i] = mean + stddev · Normal of element first + i; in fp64, rounded once. first >= 0.
void FillNormal(uint64_t seed, absl::string_view name, int64_t first, std::span<float> values,
                double mean, double stddev);

// values[i] = low + (high - low) · UniformFloat of element first + i; in fp64, rounded once (so it
// may equal high). first >= 0.
void FillUniform(uint64_t seed, absl::string_view name, int64_t first, std::span<float> values,
                 double low, double high);

}  // namespace strata
