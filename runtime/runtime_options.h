#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "comm/topology.h"
#include "runtime/engine_options.h"
#include "runtime/runtime.h"

namespace strata {

// InvalidArgument when the layout is not a legal one of `topology`, or a value cannot be.
absl::StatusOr<EngineOptions> MakeEngineOptions(const RuntimeOptions& options,
                                                const Topology& topology);

// The world's fingerprint with what must be equal on all ranks added: everything that the order of
// operations, their sizes or their results depend on. InvalidArgument if the caller's is not a JSON
// object.
absl::StatusOr<std::string> MakeFingerprint(const RuntimeOptions& options);

}  // namespace strata
