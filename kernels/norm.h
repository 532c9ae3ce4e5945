#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace strata {

// A sum of squares whose bits do not depend on who adds what, or when.
//
// [Note: Order-free sum of squares] A unit is cut into blocks of kBlockElements; the last one is
// filled up with zeros. A block is summed in fp64 in a fixed order: an f32 squared is exact in
// fp64; lane l of 32 adds the squares of elements l, l+32, ..., l+224 in this order; then lane l
// adds lane l+16, then l+8, l+4, l+2, l+1. Block sums are added as integers, which is associative.
// A block sum is a multiple of 2^-298 (the square of the least f32) below 2^265, so 640 bits hold
// 2^77 of them exactly. Infinite and NaN sums are flags.
class NormSum {
 public:
  // Adds a piece of a unit that begins at a multiple of kBlockElements of it, and ends at one or
  // with the unit. One pass over memory; no allocation.
  void AddBlocks(std::span<const float> elements);

  // Adds sums of whole blocks, made elsewhere in the order of the note above.
  void AddBlockSums(std::span<const double> sums);

  void Add(const NormSum& other);

  // Sum of squares, rounded once to nearest even; infinity or NaN when a square was (NaN wins).
  double Value() const;

  // The norm: the square root of Value(), rounded to nearest even.
  double Sqrt() const;

  bool finite() const { return !infinite_ && !nan_; }

  // The same sum in another process: little endian, fixed size.
  static constexpr int64_t kWireBytes = 88;
  using Wire = std::array<std::byte, kWireBytes>;
  Wire ToWire() const;
  // DataLoss when ToWire can not have written `wire`.
  static absl::StatusOr<NormSum> FromWire(std::span<const std::byte, kWireBytes> wire);

  bool operator==(const NormSum&) const = default;

 private:
  static constexpr int kLimbs = 10;

  void AddBlockSum(double sum);

  std::array<uint64_t, kLimbs> limbs_ = {};  // least significant first, in units of 2^-298
  bool infinite_ = false, nan_ = false;
};

}  // namespace strata
