#include "kernels/norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/block_squares.h"
#include "kernels/status.h"
#include "kernels/types.h"

namespace strata {
namespace {

constexpr int kUnitExponent = -298;  // limbs count multiples of 2^this
constexpr int kMantissaBits = 53;
constexpr uint64_t kInfiniteFlag = 1, kNanFlag = 2;

// sum += value at `limb`, carries included.
void AddAt(std::span<uint64_t> limbs, size_t limb, uint64_t value) {
  for (; value != 0 && limb < limbs.size(); ++limb) {
    limbs[limb] += value;
    value = limbs[limb] < value ? 1 : 0;
  }
}

void StoreLittleEndian(uint64_t value, std::byte* dst) {
  for (int i = 0; i < 8; ++i) dst[i] = static_cast<std::byte>(value >> (8 * i));
}

uint64_t LoadLittleEndian(const std::byte* src) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= std::to_integer<uint64_t>(src[i]) << (8 * i);
  return value;
}

}  // namespace

void NormSum::AddBlocks(std::span<const float> elements) {
  constexpr int64_t kBatch = 64;  // block sums per call of the vector body
  double sums[kBatch];
  const int64_t blocks = static_cast<int64_t>(elements.size()) / kBlockElements;
  for (int64_t first = 0; first < blocks; first += kBatch) {
    const int64_t count = std::min(kBatch, blocks - first);
    BlockSquares(elements.data() + first * kBlockElements, count, sums);
    AddBlockSums({sums, static_cast<size_t>(count)});
  }
  const auto tail = elements.subspan(blocks * kBlockElements);
  if (tail.empty()) return;
  float padded[kBlockElements] = {};
  std::memcpy(padded, tail.data(), tail.size_bytes());
  BlockSquares(padded, 1, sums);
  AddBlockSum(sums[0]);
}

void NormSum::AddBlockSums(std::span<const double> sums) {
  for (const double sum : sums) AddBlockSum(sum);
}

void NormSum::AddBlockSum(double sum) {
  if (!std::isfinite(sum)) {
    (std::isnan(sum) ? nan_ : infinite_) = true;
    return;
  }
  if (sum == 0) return;
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int shift = static_cast<int>(bits >> 52) - 1075 - kUnitExponent;
  if (shift < 0) {  // a small sum: the bits shifted out are zero, it is a multiple of the unit
    AddAt(limbs_, 0, mantissa >> -shift);
    return;
  }
  const int offset = shift % 64;
  AddAt(limbs_, shift / 64, mantissa << offset);
  if (offset > 64 - kMantissaBits) AddAt(limbs_, shift / 64 + 1, mantissa >> (64 - offset));
}

void NormSum::Add(const NormSum& other) {
  for (int limb = 0; limb < kLimbs; ++limb) AddAt(limbs_, limb, other.limbs_[limb]);
  infinite_ |= other.infinite_;
  nan_ |= other.nan_;
}

double NormSum::Value() const {
  if (nan_) return std::nan("");
  if (infinite_) return HUGE_VAL;
  int top = kLimbs - 1;
  while (top > 0 && limbs_[top] == 0) --top;
  // The 64 bits from the highest set one on, `lower` below them; they are rounded by hand because
  // a conversion of `head` alone does not see what is below.
  const int empty = std::countl_zero(limbs_[top]);
  if (empty == 64) return 0;
  uint64_t head = limbs_[top] << empty;
  uint64_t lower = 0;
  if (top > 0) {
    if (empty > 0) head |= limbs_[top - 1] >> (64 - empty);
    lower = limbs_[top - 1] << empty;
    for (int limb = 0; limb < top - 1; ++limb) lower |= limbs_[limb];
  }
  constexpr int kDropped = 64 - kMantissaBits;
  const uint64_t half = uint64_t{1} << (kDropped - 1);
  const uint64_t remainder = head & (2 * half - 1);
  uint64_t mantissa = head >> kDropped;
  if (remainder > half || (remainder == half && (lower != 0 || mantissa % 2 == 1))) ++mantissa;
  return std::ldexp(static_cast<double>(mantissa), 64 * top - empty + kDropped + kUnitExponent);
}

double NormSum::Sqrt() const { return std::sqrt(Value()); }

NormSum::Wire NormSum::ToWire() const {
  Wire wire;
  for (int limb = 0; limb < kLimbs; ++limb) StoreLittleEndian(limbs_[limb], &wire[8 * limb]);
  StoreLittleEndian((infinite_ ? kInfiniteFlag : 0) | (nan_ ? kNanFlag : 0), &wire[8 * kLimbs]);
  return wire;
}

absl::StatusOr<NormSum> NormSum::FromWire(std::span<const std::byte, kWireBytes> wire) {
  NormSum sum;
  for (int limb = 0; limb < kLimbs; ++limb) sum.limbs_[limb] = LoadLittleEndian(&wire[8 * limb]);
  const uint64_t flags = LoadLittleEndian(&wire[8 * kLimbs]);
  if (flags > (kInfiniteFlag | kNanFlag)) {
    return absl::DataLossError(absl::StrCat("a sum of squares with flags ", flags,
                                            ": at most 3 are defined; its bytes were changed "
                                            "on the way, or the sender is of another version"));
  }
  sum.infinite_ = (flags & kInfiniteFlag) != 0;
  sum.nan_ = (flags & kNanFlag) != 0;
  return sum;
}

}  // namespace strata
