#pragma once

#include <map>
#include <string>

namespace strata {

// What changes libtorch's bits, by name: version, intra-op threads, BLAS, CPU capability. Ranks
// must agree on it.
std::map<std::string, std::string> TorchFingerprint();

// The file that the BLAS behind libtorch was loaded from, or "unknown".
std::string BlasLibrary();

}  // namespace strata
