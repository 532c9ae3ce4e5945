#pragma once

#include "kernels/stream.h"

namespace strata {

// The elementwise kernels on host memory; each returns when it is done. Any thread, no allocation.
//
// bf16 operands are widened to f32, which is exact; the operation is done in f32 and its result
// rounded once to the destination's type. Bits are the same on every processor, except for which
// NaN an operation on two NaNs returns.

void Copy(const CopyCall& call);
void Add(const AddCall& call);
void Convert(const ConvertCall& call);
void Accumulate(const AccumulateCall& call);
void Scale(const ScaleCall& call);

}  // namespace strata
