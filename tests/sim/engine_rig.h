#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comm/sim/sim_cluster.h"
#include "runtime/engine.h"
#include "runtime/unit_table.h"
#include "tests/support/memfd_memory.h"

namespace strata {

// What a simulated application does next.
struct AppAction {
  enum class Kind : uint8_t {
    kAcquire,
    kCompute,   // takes virtual time
    kGradient,  // writes the toy model's gradient into the lent buffer
    kReduce,
    kRelease,
    kEndStep,
    kFlush,
    kDigest,
  };
  Kind kind = Kind::kCompute;
  UnitId unit{};
  Phase phase = Phase::kForward;
  absl::Duration compute;
  int step = 0, micro = 0;
};

// One gradient that is infinite.
struct Poison {
  Rank rank{};
  UnitId unit{};
  int step = 0;
};

struct RigOptions {
  SimClusterOptions cluster;
  std::vector<std::vector<int64_t>> units;  // elements of each parameter of each unit
  std::string layout = "zero3";
  EngineOptions engine;  // its layout is set from `layout`
  uint64_t seed = 1;     // of the toy model
  std::optional<Poison> poison;
};

// The actions of ordinary training: `steps` steps, forward through all units and backward again.
struct TrainingShape {
  int units = 1;
  int steps = 1;
  int accumulation = 1;
  absl::Duration forward, backward;  // of one unit
};
std::vector<AppAction> OrdinaryTraining(const TrainingShape& shape);

// One Engine per rank on a simulated cluster, each driven by a list of actions.
class EngineRig {
 public:
  explicit EngineRig(RigOptions options);
  ~EngineRig();

  struct RankResult {
    absl::Status status;
    bool ended = false;
    std::vector<StepReport> reports;  // of EndStep and Flush, in order
    std::string digest;
    absl::Time end;
  };

  // Whether engines could be made; the first error otherwise.
  const absl::Status& created() const { return created_; }
  SimCluster& cluster() { return cluster_; }
  Engine& engine(Rank rank) { return *ranks_[Index(rank)].engine; }

  // Runs `program(rank)` on every rank until all have ended or `deadline` (virtual, from now).
  void Run(const std::function<std::vector<AppAction>(Rank)>& program, absl::Duration deadline);
  const RankResult& result(Rank rank) const { return ranks_[Index(rank)].result; }
  // Calls whose reply came later than `limit` after the call.
  absl::Duration longest_call() const { return longest_call_; }

 private:
  struct PerRank {
    std::unique_ptr<MemfdMemory> shared;
    std::unique_ptr<ShardMemory> memory;
    std::unique_ptr<UnitTable> table;
    std::unique_ptr<Engine> engine;
    std::vector<AppAction> actions;
    size_t next = 0;
    std::vector<UnitView> views;  // by unit
    RankResult result;
  };

  absl::Status Create(Rank rank);
  void Next(Rank rank);
  void Call(Rank rank, EngineCall call, const AppAction& action);
  void OnReply(Rank rank, const AppAction& action, absl::StatusOr<EngineReply> reply);
  void WriteGradient(Rank rank, const AppAction& action);

  RigOptions options_;
  SimCluster cluster_;
  std::vector<PerRank> ranks_;
  absl::Status created_;
  absl::Duration longest_call_;
  bool agreed_ = false;
};

}  // namespace strata
