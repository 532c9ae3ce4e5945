// One rank of a world in a process of its own: joins, gathers and reduces a unit again and again,
// checks every value, and leaves. Its rank and rendezvous come from the environment.
//   world_process STEPS [transport=tcp] [heartbeat=SECONDS] [timeout=SECONDS] [token=TEXT]
//                 [fingerprint=JSON] [fail_at=STEP] [interface=NAME]
// STEPS 0: until the world ends. Prints "joined …" and "left", or "error: …". Exit code 0 when it
// has left in peace, 2 when it could not join, 3 when the world ended.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/awaited.h"
#include "comm/layout.h"
#include "comm/plan.h"
#include "comm/shard_layout.h"
#include "comm/world.h"

namespace strata {
namespace {

constexpr int64_t kElements = 1000003;  // prime
constexpr absl::Duration kOperation = absl::Seconds(60);

// Small integers, so that sums are exact in any order.
float Value(int step, int rank, int64_t element) {
  return static_cast<float>((element * 7 + rank * 31 + step * 3) % 512);
}

// Bytes of a shared segment as one page.
class Buffer {
 public:
  Buffer(SharedMemory& memory, int64_t bytes)
      : segment_(memory.Allocate(std::max<int64_t>(bytes, 1)).value()),
        page_(segment_.bytes.data()),
        bytes_(bytes) {}
  PlanBuffer view() { return {{&page_, 1}, std::max<int64_t>(bytes_, 1)}; }
  float* floats() { return reinterpret_cast<float*>(page_); }

 private:
  SharedSegment segment_;
  std::byte* page_;
  int64_t bytes_;
};

// One plan of one lane and its memory.
class Operation {
 public:
  Operation(World& world, Lane lane, Plan plan, std::string what)
      : lane_(lane),
        plan_(std::make_shared<const Plan>(std::move(plan))),
        what_(std::move(what)),
        input_(world.shared_memory(), plan_->input_bytes),
        output_(world.shared_memory(), plan_->output_bytes),
        scratch_(world.shared_memory(), plan_->scratch_bytes) {}

  float* input() { return input_.floats(); }
  const float* output() { return output_.floats(); }

  absl::Status Run(uint32_t step) {
    Awaited<absl::Status> ended;
    lane_.loop->Post([&] {
      RunOptions options{.what = what_, .operation = step, .order = step};
      options.deadline = lane_.loop->Now() + kOperation;
      lane_.runner->Run(plan_, {input_.view(), output_.view(), scratch_.view()}, std::move(options),
                        [&ended](absl::Status status) { ended.Set(std::move(status)); });
    });
    return ended.Wait();
  }

 private:
  const Lane lane_;
  const std::shared_ptr<const Plan> plan_;
  const std::string what_;
  Buffer input_, output_, scratch_;
};

// Calls `visit(packed offset, element)` for what `rank` holds.
template <typename Visit>
void ForOwned(const ShardLayout& layout, Rank rank, Visit visit) {
  int64_t packed = 0;
  for (const ElementRange& range : layout.Owned(rank)) {
    for (int64_t element = range.begin; element < range.end; ++element) visit(packed++, element);
  }
}

// One gather of everybody's shards, one reduce of everybody's values.
class Work {
 public:
  static absl::StatusOr<std::unique_ptr<Work>> Create(World& world) {
    const Topology& topology = world.topology();
    const auto layout = ParseLayout("zero3", topology);
    if (!layout.ok()) return layout.status();
    auto shards = MakeUnitShards(topology, *layout, kElements);
    if (!shards.ok()) return shards.status();
    const PlanOptions options;
    auto gather = PlanGather(topology, shards->parameters, shards->full, world.self(), options);
    if (!gather.ok()) return gather.status();
    auto reduce = PlanReduce(topology, shards->full, shards->gradients,
                             LevelSet::All(topology.level_count()), world.self(), options);
    if (!reduce.ok()) return reduce.status();
    return std::make_unique<Work>(world, *std::move(shards), *std::move(gather),
                                  *std::move(reduce));
  }

  Work(World& world, UnitShards shards, Plan gather, Plan reduce)
      : world_(world),
        shards_(std::move(shards)),
        gather_(world, world.gather(), std::move(gather), "gather unit \"u\""),
        reduce_(world, world.reduce(), std::move(reduce), "reduce unit \"u\"") {}

  absl::Status Step(int step) {
    const Rank self = world_.self();
    ForOwned(shards_.parameters, self, [&](int64_t packed, int64_t element) {
      gather_.input()[packed] = Value(step, 0, element);
    });
    for (int64_t element = 0; element < kElements; ++element) {
      reduce_.input()[element] = Value(step, Index(self), element);
    }
    absl::Status status = gather_.Run(static_cast<uint32_t>(step));
    if (status.ok()) status = reduce_.Run(static_cast<uint32_t>(step));
    if (!status.ok()) return status;
    int64_t wrong = 0;
    for (int64_t element = 0; element < kElements; ++element) {
      wrong += gather_.output()[element] != Value(step, 0, element);
    }
    ForOwned(shards_.gradients, self, [&](int64_t packed, int64_t element) {
      float sum = 0;
      for (int rank = 0; rank < world_.topology().size(); ++rank) {
        sum += Value(step, rank, element);
      }
      wrong += reduce_.output()[packed] != sum;
    });
    if (wrong == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(wrong, " wrong values in step ", step));
  }

 private:
  World& world_;
  const UnitShards shards_;
  Operation gather_, reduce_;
};

int Fail(const absl::Status& status, int code) {
  std::printf("error: %s\n", status.ToString().c_str());
  std::fflush(stdout);
  return code;
}

int Run(int steps, const std::map<std::string, std::string>& arguments) {
  absl::StatusOr<WorldOptions> options = WorldOptionsFromEnvironment();
  if (!options.ok()) return Fail(options.status(), 2);
  const auto text = [&arguments](const char* name, std::string fallback) {
    const auto found = arguments.find(name);
    return found == arguments.end() ? fallback : found->second;
  };
  const auto seconds = [&](const char* name, const char* fallback) {
    return absl::Seconds(std::atof(text(name, fallback).c_str()));
  };
  options->transport = text("transport", "tcp");
  options->interface = text("interface", options->interface);
  options->token = text("token", options->token);
  options->fingerprint = text("fingerprint", "");
  options->heartbeat_timeout = seconds("heartbeat", "5");
  options->timeout = seconds("timeout", "30");
  const int fail_at = std::atoi(text("fail_at", "-1").c_str());

  auto world = World::Join(*options);
  if (!world.ok()) return Fail(world.status(), 2);
  std::vector<std::string> nodes;
  const Topology& topology = (*world)->topology();
  for (int node = 0; node < topology.group_count(0); ++node) {
    nodes.push_back(absl::StrCat(topology.Members(0, node).count));
  }
  std::printf("joined %d of %d nodes %s\n", Index((*world)->self()), topology.size(),
              absl::StrJoin(nodes, "+").c_str());
  std::fflush(stdout);

  auto work = Work::Create(**world);
  absl::Status status = work.status();
  for (int step = 0; status.ok() && (steps == 0 || step < steps); ++step) {
    if (step == fail_at) {
      status = absl::ResourceExhaustedError("told to fail");
      break;
    }
    status = (*work)->Step(step);
  }
  const absl::Status left = (*world)->Leave(status);
  if (!status.ok()) return Fail(status, 3);
  if (!left.ok()) return Fail(left, 3);
  std::printf("left\n");
  return 0;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  std::map<std::string, std::string> arguments;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    arguments[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  return strata::Run(std::atoi(argv[1]), arguments);
}
