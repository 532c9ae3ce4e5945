// One rank of a training run of the toy model over the public Runtime API. Prints its digest and
// what it allocated after Seal; exits 1 with the error on stderr.
//   toy_worker LAYOUT ACCUMULATION STEPS DTYPE
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "runtime/runtime.h"
#include "tests/proc/heap_watch.h"
#include "tests/sim/toy_model.h"

namespace strata {
namespace {

const std::vector<int64_t> kUnits = {1, 957, 5003, 70001};

absl::Status Train(Runtime& runtime, int accumulation, int steps, DType dtype) {
  std::vector<UnitId> units;
  for (size_t u = 0; u < kUnits.size(); ++u) {
    const UnitSpec spec{.name = absl::StrCat("h.", u),
                        .parameters = {{.name = absl::StrCat("w.", u), .elements = kUnits[u]}}};
    STRATA_ASSIGN_OR_RETURN(
        const UnitId id, runtime.AddUnit(spec, [u](int, int64_t first, std::span<float> values) {
          for (size_t i = 0; i < values.size(); ++i) {
            values[i] = toy::Initial(1, static_cast<int>(u), first + static_cast<int64_t>(i));
          }
        }));
    units.push_back(id);
  }
  STRATA_RETURN_IF_ERROR(runtime.Seal());
  const int memory_files = MemoryFiles();
  std::printf("sealed\n");  // takes stdout's buffer
  WatchHeap(true);
  if (std::getenv("TOY_TAKES_HEAP") != nullptr) {
    const std::vector<std::byte> block(4096);
    std::printf("took %d bytes\n", static_cast<int>(block.size()));
  }
  for (int step = 0; step < steps; ++step) {
    for (int micro = 0; micro < accumulation; ++micro) {
      for (UnitId unit : units) {
        STRATA_RETURN_IF_ERROR(runtime.Acquire(unit, Phase::kForward).status());
        STRATA_RETURN_IF_ERROR(runtime.Release(unit));
      }
      for (int u = static_cast<int>(units.size()) - 1; u >= 0; --u) {
        STRATA_ASSIGN_OR_RETURN(const UnitView view, runtime.Acquire(units[u], Phase::kBackward));
        const toy::Data data{1, Index(runtime.self()), step, micro};
        for (int64_t e = 0; e < kUnits[u]; ++e) {
          if (dtype == DType::kF32) {
            const float value = static_cast<const float*>(view.parameters)[e];
            static_cast<float*>(view.gradients)[e] = toy::Gradient(value, data, u, e);
          } else {
            const float value = toy::Widen(static_cast<const uint16_t*>(view.parameters)[e]);
            static_cast<uint16_t*>(view.gradients)[e] =
                toy::Narrow(toy::Gradient(value, data, u, e));
          }
        }
        STRATA_RETURN_IF_ERROR(runtime.Reduce(units[u]));
        STRATA_RETURN_IF_ERROR(runtime.Release(units[u]));
      }
    }
    STRATA_RETURN_IF_ERROR(runtime.EndStep({}).status());
    std::printf("step %d\n", step + 1);
    std::fflush(stdout);
  }
  STRATA_ASSIGN_OR_RETURN(const StepReport report, runtime.Flush());
  WatchHeap(false);
  PrintLargeHeapBlocks();
  // A peer's segment, received but not mapped yet, may have counted at Seal: fewer later is no
  // taking.
  std::printf("after Seal: %d large heap blocks, %d memory files\n",
              static_cast<int>(LargeHeapBlocks()), std::max(0, MemoryFiles() - memory_files));
  for (const StepReport::PerLevel& level : report.levels) {
    if (level.sent_bytes != level.planned_sent_bytes ||
        level.received_bytes != level.planned_received_bytes) {
      return absl::InternalError(absl::StrCat(level.name, ": ", level.sent_bytes, " bytes sent, ",
                                              level.planned_sent_bytes, " planned"));
    }
  }
  STRATA_ASSIGN_OR_RETURN(const std::string digest, runtime.ParametersSha256());
  std::printf("digest %s\n", digest.c_str());
  return absl::OkStatus();
}

absl::Status Main(char** argv) {
  RuntimeOptions options;
  STRATA_ASSIGN_OR_RETURN(options.world, WorldOptionsFromEnvironment());
  const char* const transport = std::getenv("TOY_TRANSPORT");
  options.world.transport = transport == nullptr ? "tcp" : transport;
  options.layout = argv[1];
  options.accumulation = std::atoi(argv[2]);
  options.compute_dtype = options.gradient_dtype =
      std::string(argv[4]) == "bf16" ? DType::kBf16 : DType::kF32;
  options.prefetch_bytes = 4 << 20;
  options.chunk_bytes = 16 << 10;
  options.timeout = absl::Seconds(20);
  options.world.heartbeat_timeout = absl::Seconds(2);
  options.optimizer.groups[0] = {.learning_rate = 1e-2f, .weight_decay = 0.1f};
  const char* const trace = std::getenv("TOY_TRACE");
  if (trace != nullptr) options.trace = absl::StrCat(trace, ".", options.world.launcher_rank);
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<Runtime> runtime, Runtime::Start(options));
  const absl::Status trained =
      Train(*runtime, options.accumulation, std::atoi(argv[3]), options.compute_dtype);
  const absl::Status left = runtime->Shutdown(trained);
  return trained.ok() ? left : trained;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const absl::Status status = strata::Main(argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
