#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "kernels/sha256.h"
#include "runtime/engine_core.h"
#include "runtime/gather_path.h"

namespace strata {

// SHA-256 over all master parameters in declaration order, without gaps: gathers the optimizer's
// shards, f32, unit by unit on the gather lane. For checks; it allocates a unit's memory while it
// runs. Control loop; one at a time.
class MasterDigest {
 public:
  MasterDigest(EngineCore& core, GatherPath& gathers) : core_(core), gathers_(gathers) {}

  void Start(absl::AnyInvocable<void(std::string) &&> done);

 private:
  struct Run;
  void NextUnit(std::shared_ptr<Run> run);
  void HashPiece(std::shared_ptr<Run> run, size_t parameter, int64_t element);

  EngineCore& core_;
  GatherPath& gathers_;
};

}  // namespace strata
