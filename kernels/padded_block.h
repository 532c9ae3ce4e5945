#pragma once

#include <cstdint>
#include <cstring>

namespace strata {

// Kernel bodies take whole multiples of this many elements: of any vector they are compiled for.
inline constexpr int64_t kBodyElements = 64;

// [Note: Padded tails] The elements after the last multiple of kBodyElements are copied into a
// block of zeros and go through the same vector body as all others. So an element's bits depend on
// its operands alone, neither on its position nor on the length of the call.
template <typename T>
class PaddedBlock {
 public:
  // Holds src[0, elements) followed by zeros; 0 <= elements <= kBodyElements.
  PaddedBlock(const T* src, int64_t elements) {
    if (elements > 0) std::memcpy(data_, src, elements * sizeof(T));
  }

  T* data() { return data_; }

  void CopyTo(T* dst, int64_t elements) const { std::memcpy(dst, data_, elements * sizeof(T)); }

 private:
  alignas(64) T data_[kBodyElements] = {};
};

constexpr int64_t WholeBodies(int64_t elements) { return elements - elements % kBodyElements; }

}  // namespace strata
