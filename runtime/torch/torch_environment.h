#pragma once

#include <map>
#include <string>

namespace strata {

// What changes libtorch's bits, by name: version, intra-op threads, BLAS, CPU capability. Ranks
// must agree on it.
std::map<std::string, std::string> TorchFingerprint();

// Rate of a 512 x 512 f32 matrix product on one thread, in GFLOP/s, over about 50 ms.
double MeasureProductRate();

}  // namespace strata
