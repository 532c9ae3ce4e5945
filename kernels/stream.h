#pragma once

#include <cstdint>
#include <functional>
#include <variant>

#include "kernels/types.h"

namespace strata {

// Kernel calls, as data. Pointers are to memory of the stream's device; `elements` >= 0; sources
// and destinations are equal or do not overlap. No kernel allocates.

// dst = src.
struct CopyCall {
  void* dst = nullptr;
  const void* src = nullptr;
  int64_t bytes = 0;
};

// dst = a + b, computed in f32 and rounded once to dtype.
struct AddCall {
  DType dtype = DType::kF32;
  void* dst = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  int64_t elements = 0;
};

// dst = src in another type, rounded to nearest even.
struct ConvertCall {
  DType dst_dtype = DType::kF32;
  void* dst = nullptr;
  DType src_dtype = DType::kF32;
  const void* src = nullptr;
  int64_t elements = 0;
};

enum class Accumulation : uint8_t { kSet, kAdd };

// dst (f32) = src or dst + src.
struct AccumulateCall {
  Accumulation mode = Accumulation::kSet;
  float* dst = nullptr;
  DType src_dtype = DType::kF32;
  const void* src = nullptr;
  int64_t elements = 0;
};

// dst (f32) *= factor, element by element.
struct ScaleCall {
  float* dst = nullptr;
  float factor = 1;
  int64_t elements = 0;
};

// Adds the sum of squares of a shard, per kBlockElements of its unit, to `sum`. `src` begins at a
// multiple of kBlockElements of the unit. See kernels/norm.h.
class NormSum;
struct SumSquaresCall {
  NormSum* sum = nullptr;
  const float* src = nullptr;
  int64_t elements = 0;
};

// One optimizer update of `elements` master parameters. `gradient` is f32, already scaled by
// 1/(N·A); it is multiplied by `clip` (f32) on the way. See kernels/optimizer.h for the arithmetic.
struct AdamWCall {
  float* parameters = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  const float* gradient = nullptr;
  int64_t elements = 0;
  float clip = 1, learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  double beta1_power = 0, beta2_power = 0;  // beta^t for this step's t, from 1
};

struct SgdCall {
  float* parameters = nullptr;
  float* momentum = nullptr;  // null when `momentum_factor` is 0
  const float* gradient = nullptr;
  int64_t elements = 0;
  float clip = 1, learning_rate = 0, momentum_factor = 0, weight_decay = 0;
};

using KernelCall = std::variant<CopyCall, AddCall, ConvertCall, AccumulateCall, ScaleCall,
                                SumSquaresCall, AdamWCall, SgdCall>;

// Kernel calls in order on one device. A call may return before its kernel has run; memory lent to
// it is the stream's until the next Notify has fired.
class Stream {
 public:
  virtual ~Stream() = default;

  virtual void Launch(const KernelCall& call) = 0;

  // `done` runs on the stream's loop when every call launched before has ended.
  virtual void Notify(Done done) = 0;
};

// Posts a task to a loop: how a stream reaches its loop without knowing it.
using PostFunction = std::function<void(Task)>;

}  // namespace strata
