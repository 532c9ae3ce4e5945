#include "cli/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/train/blas.h"
#include "cli/train/interface_counters.h"
#include "cli/train/make_model.h"
#include "cli/train/memory_need.h"
#include "cli/train/metrics.h"
#include "cli/train/process_memory.h"
#include "cli/train/progress.h"
#include "cli/train/recent_durations.h"
#include "cli/train/schedule.h"
#include "cli/train/text.h"
#include "comm/interfaces.h"
#include "kernels/log.h"
#include "kernels/status.h"
#include "runtime/runtime.h"
#include "scheduler/ideal_step.h"

namespace strata {
namespace {

// The first steps record the order of use; what they take says nothing of the later ones.
constexpr int64_t kWarmupSteps = 2;

// Skipped at the end of a run, these tell that it will not recover.
constexpr int64_t kDivergedSteps = 3;

// Of a full Ethernet frame of 1514 bytes, TCP carries 1448.
constexpr double kPayloadShare = 1448.0 / 1514.0;

// The topology with a link rate, as of its nodes' interfaces, at its outermost level.
Topology WithOutermostRate(const Topology& topology, int64_t bytes_per_second) {
  std::vector<Level> levels(topology.levels().begin(), topology.levels().end());
  levels.back().link.bytes_per_second =
      static_cast<int64_t>(kPayloadShare * static_cast<double>(bytes_per_second));
  return *Topology::Create(std::move(levels));
}

// What was predicted, and what the kernel counts now.
nlohmann::json MemoryJson(const MemoryReport& memory) {
  nlohmann::json json = {{"parameters", memory.parameters}, {"gradients", memory.gradients},
                         {"optimizer", memory.optimizer},   {"arena", memory.arena},
                         {"scratch", memory.scratch},       {"total", memory.total}};
  if (absl::StatusOr<int64_t> measured = ReadProportionalBytes(); measured.ok()) {
    json["measured_pss"] = *measured;
  }
  return json;
}

class Trainer {
 public:
  Trainer(const TrainOptions& options, Text text, std::unique_ptr<ReferenceModel> model,
          Runtime& runtime, std::optional<MetricsFile> metrics, std::string interface)
      : config_(options.config),
        text_(std::move(text)),
        model_(std::move(model)),
        runtime_(runtime),
        metrics_(std::move(metrics)),
        interface_(std::move(interface)),
        progress_(config_.layout, config_.train.steps) {}

  // Returns what shows that the run diverged, the same on all ranks; empty when it did not.
  absl::StatusOr<std::string> Run() {
    STRATA_RETURN_IF_ERROR(model_->Declare(runtime_));
    STRATA_RETURN_IF_ERROR(runtime_.Seal());
    for (int64_t step = 1; step <= config_.train.steps; ++step) {
      STRATA_RETURN_IF_ERROR(Step(step));
      if (step == std::min(kWarmupSteps, config_.train.steps)) STRATA_RETURN_IF_ERROR(StartWire());
      const int64_t every = config_.train.eval_every;
      if (every > 0 && step % every == 0) STRATA_RETURN_IF_ERROR(Evaluate(step));
    }
    STRATA_RETURN_IF_ERROR(FlushReport());
    STRATA_RETURN_IF_ERROR(Summarise());
    return Divergence();
  }

 private:
  bool leads() const { return runtime_.self() == Rank{0}; }

  absl::Status Step(int64_t step) {
    StepMeasure measure;
    StepInput input;
    for (int64_t micro = 0; micro < config_.train.accumulation; ++micro) {
      const Text::Storage batch =
          text_.TrainingBatch(config_.train.seed, BatchIndex(step, micro),
                              config_.train.micro_batch, SequenceLength(config_));
      STRATA_ASSIGN_OR_RETURN(MicroStepResult result, model_->MicroStep(batch.View()));
      input.loss += result.loss;
      input.tokens += static_cast<int64_t>(batch.tokens.size());
      measure.forward += result.forward;
      measure.backward += result.backward;
    }
    input.groups = OptimizerGroups(step);
    STRATA_ASSIGN_OR_RETURN(StepReport report, runtime_.EndStep(input));
    STRATA_RETURN_IF_ERROR(Deliver(report));
    pending_ = measure;
    return absl::OkStatus();
  }

  // Every (step, micro-step, position) has its own part of the text, whatever the layout.
  uint64_t BatchIndex(int64_t step, int64_t micro) const {
    return static_cast<uint64_t>(((step - 1) * config_.train.accumulation + micro) *
                                     runtime_.topology().size() +
                                 Index(runtime_.self()));
  }

  std::vector<OptimizerOptions::Group> OptimizerGroups(int64_t step) const {
    OptimizerOptions::Group group = ToOptimizerGroup(config_);
    group.learning_rate =
        LearningRate({group.learning_rate, config_.train.warmup, config_.train.steps,
                      config_.train.schedule == Schedule::kCosine},
                     step);
    return {group};
  }

  // A report belongs to the step before the one that just ended, and so does `pending_`.
  absl::Status Deliver(const StepReport& report) {
    if (report.step <= delivered_) return absl::OkStatus();  // a flush has told it already
    delivered_ = report.step;
    StepMeasure measure = pending_;
    measure.loss =
        report.loss / static_cast<double>(runtime_.topology().size() * config_.train.accumulation);
    loss_ = measure.loss;
    NoteSkip(report);
    if (report.step > kWarmupSteps) {
      durations_.Add(report.duration);
      forward_.Add(measure.forward / config_.train.accumulation);
      backward_.Add(measure.backward / config_.train.accumulation);
      for (size_t l = 0; l < report.levels.size(); ++l) {
        node_sent_[l] += report.levels[l].node_sent_bytes;
      }
    }
    if (leads()) progress_.Show(report.step, absl::StrFormat("loss %.4f", measure.loss));
    return metrics_ ? metrics_->Write(StepLine(report, measure)) : absl::OkStatus();
  }

  std::string Divergence() const {
    if (skipped_in_a_row_ < std::min(kDivergedSteps, config_.train.steps) && std::isfinite(loss_)) {
      return "";
    }
    return absl::StrFormat(
        "the run diverged: after step %d the loss is %.4g, %d steps were skipped because their "
        "gradients were not finite, among them the last %d; lower train.learning_rate or set "
        "train.clip",
        delivered_, loss_, skipped_, skipped_in_a_row_);
  }

  void NoteSkip(const StepReport& report) {
    skipped_in_a_row_ = report.skipped ? skipped_in_a_row_ + 1 : 0;
    if (report.skipped && skipped_++ == 0 && leads()) {
      Log(Severity::kWarning, absl::StrCat("step ", report.step,
                                           " was skipped, the first one: its gradients are not "
                                           "finite; parameters stay as they were"));
    }
  }

  absl::Status FlushReport() {
    STRATA_ASSIGN_OR_RETURN(StepReport report, runtime_.Flush());
    return Deliver(report);
  }

  // From here on the interface's counters and the runtime's count the same steps.
  absl::Status StartWire() {
    STRATA_RETURN_IF_ERROR(FlushReport());
    STRATA_ASSIGN_OR_RETURN(wire_start_, ReadWire());
    return absl::OkStatus();
  }

  // The interface's counters while no rank sends: between two flushes.
  absl::StatusOr<std::optional<InterfaceBytes>> ReadWire() {
    std::optional<InterfaceBytes> wire;
    if (!interface_.empty()) {
      STRATA_ASSIGN_OR_RETURN(wire, ReadInterfaceBytes(interface_));
    }
    STRATA_RETURN_IF_ERROR(runtime_.Flush().status());
    return wire;
  }

  absl::Status Evaluate(int64_t step) {
    const Text::Storage batch =
        text_.EvaluationBatch(config_.train.seed, Index(runtime_.self()), config_.train.micro_batch,
                              SequenceLength(config_));
    STRATA_ASSIGN_OR_RETURN(double loss, model_->Evaluate(batch.View()));
    return metrics_ ? metrics_->Write({{"step", step}, {"eval_loss", loss}}) : absl::OkStatus();
  }

  absl::Duration Ideal() const {
    StepShape shape;
    shape.layout = runtime_.layout();
    shape.accumulation = config_.train.accumulation;
    shape.forward = forward_.Median();
    shape.backward = backward_.Median();
    shape.parameter_bytes = runtime_.elements() * SizeOf(config_.compute.dtype);
    shape.gradient_bytes = runtime_.elements() * SizeOf(config_.compute.gradient_dtype);
    return IdealStep(shape, WithOutermostRate(runtime_.topology(), config_.network.rate));
  }

  void PrintSummary(const nlohmann::json& summary) const {
    const std::string duration =
        durations_.count() == 0
            ? absl::StrCat("too few to time (the first ", kWarmupSteps, " are not)")
            : absl::StrFormat("%.3f s per step", absl::ToDoubleSeconds(durations_.Median()));
    std::printf("%s: loss %.4f after %d steps, %s, parameters %s\n", config_.layout.c_str(), loss_,
                static_cast<int>(config_.train.steps), duration.c_str(),
                summary["params_sha256"].get<std::string>().c_str());
  }

  absl::Status Summarise() {
    nlohmann::json summary = {{"layout", config_.layout},
                              {"loss", loss_},
                              {"ranks", runtime_.topology().size()},
                              {"steps", config_.train.steps},
                              {"skipped_steps", skipped_},
                              {"measured_steps", durations_.count()},
                              {"parameters", runtime_.elements()},
                              {"median_step_seconds", absl::ToDoubleSeconds(durations_.Median())},
                              {"forward_seconds", absl::ToDoubleSeconds(forward_.Median())},
                              {"backward_seconds", absl::ToDoubleSeconds(backward_.Median())},
                              {"memory", MemoryJson(runtime_.memory())}};
    if (config_.network.rate > 0) {
      summary["ideal_step_seconds"] = absl::ToDoubleSeconds(Ideal());
    }
    STRATA_ASSIGN_OR_RETURN(const std::optional<InterfaceBytes> wire, ReadWire());
    if (wire) {
      summary["interface_bytes"] = {{"sent", wire->sent - wire_start_->sent},
                                    {"received", wire->received - wire_start_->received}};
    }
    for (int l = 0; l < runtime_.topology().level_count(); ++l) {
      summary["node_sent_bytes"][runtime_.topology().levels()[l].name] = node_sent_[l];
    }
    STRATA_ASSIGN_OR_RETURN(summary["params_sha256"], runtime_.ParametersSha256());
    if (leads()) PrintSummary(summary);
    if (!metrics_) return absl::OkStatus();
    return metrics_->Write({{"schema", kMetricsSchema}, {"summary", summary}});
  }

  const TrainConfig& config_;
  const Text text_;
  const std::unique_ptr<ReferenceModel> model_;
  Runtime& runtime_;
  std::optional<MetricsFile> metrics_;
  const std::string interface_;  // between nodes; empty: not known
  ProgressBar progress_;
  StepMeasure pending_;
  int64_t delivered_ = 0;  // the last step whose report came
  double loss_ = 0;
  int64_t skipped_ = 0, skipped_in_a_row_ = 0;  // steps
  RecentDurations durations_, forward_, backward_;
  std::map<size_t, int64_t> node_sent_;
  std::optional<InterfaceBytes> wire_start_;
};

// Tells the user when the mathematics will be what takes the time.
void WarnIfProductsAreSlow(const Runtime& runtime, const TrainConfig& config) {
  const std::string blas = ModelBlas(config);
  if (!IsReferenceBlas(blas) || runtime.self() != Rank{0}) return;
  Log(Severity::kWarning,
      absl::StrCat("matrices are multiplied by the reference BLAS, ", blas,
                   ", which takes about 14 times as long as OpenBLAS; install libopenblas0-serial "
                   "and choose it with update-alternatives"));
}

// Before anything of the model is allocated.
absl::Status CheckFits(const TrainConfig& config, const Runtime& runtime) {
  const absl::StatusOr<int64_t> available = ReadAvailableBytes();
  if (!available.ok()) return absl::OkStatus();  // a system that does not say lets us try
  return CheckMemory(config, runtime.layout(), runtime.topology(), runtime.self(), *available);
}

// The timeline is written at the end; what hinders that is told before the work.
absl::Status CheckTrace(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const std::string folder = std::filesystem::path(path).parent_path();
  errno = 0;
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) {
    if (!std::filesystem::is_directory(path)) return absl::OkStatus();
    errno = EISDIR;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--trace: cannot write \"", path, "\": ", std::strerror(errno)));
}

absl::StatusOr<Text> TextFor(const TrainConfig& config) {
  if (config.model.kind == ModelKind::kUnits) return Text::Drawn(config.train.seed);
  absl::StatusOr<Text> text = Text::Load(config.data.text, SequenceLength(config));
  if (!text.ok()) return Annotate(text.status(), "data.text");
  return text;
}

// Of the interface between nodes, for its counters; empty when none was chosen. A world of one node
// has not looked for it.
absl::StatusOr<std::string> InterfaceName(const WorldOptions& world) {
  if (world.interface.empty()) return std::string();
  STRATA_ASSIGN_OR_RETURN(Interface found,
                          ResolveInterface(world.interface, world.rendezvous_host));
  return found.name;
}

absl::StatusOr<WorldOptions> JobFromEnvironment(const TrainConfig& config) {
  STRATA_ASSIGN_OR_RETURN(WorldOptions world, WorldOptionsFromEnvironment());
  nlohmann::json fingerprint(ModelFingerprint(config));
  world.fingerprint = fingerprint.dump();
  return world;
}

// What a rank does between meeting the others and leaving them. Returns what Trainer::Run does.
absl::StatusOr<std::string> Work(const TrainOptions& options, const RuntimeOptions& runtime_options,
                                 Runtime& runtime, Text text,
                                 std::unique_ptr<ReferenceModel> model) {
  WarnIfProductsAreSlow(runtime, options.config);
  STRATA_RETURN_IF_ERROR(CheckFits(options.config, runtime));
  STRATA_ASSIGN_OR_RETURN(std::string interface, InterfaceName(runtime_options.world));
  STRATA_RETURN_IF_ERROR(CheckTrace(runtime_options.trace));
  std::optional<MetricsFile> metrics;
  if (!options.metrics.empty() && runtime.self() == Rank{0}) {
    STRATA_ASSIGN_OR_RETURN(metrics, MetricsFile::Create(options.metrics));
  }
  return Trainer(options, std::move(text), std::move(model), runtime, std::move(metrics),
                 std::move(interface))
      .Run();
}

}  // namespace

absl::Status Train(const TrainOptions& options) {
  const TrainConfig& config = options.config;
  STRATA_ASSIGN_OR_RETURN(Text text, TextFor(config));
  BecomeProgramFor(config);  // what is wrong so far is told by all ranks at once, before they load
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<ReferenceModel> model, MakeModel(config));
  STRATA_ASSIGN_OR_RETURN(WorldOptions world, JobFromEnvironment(config));
  RuntimeOptions runtime_options = ToRuntimeOptions(config, world);
  if (world.launcher_rank == 0) runtime_options.trace = options.trace;
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<Runtime> runtime, Runtime::Start(runtime_options));
  const absl::StatusOr<std::string> diverged =
      Work(options, runtime_options, *runtime, std::move(text), std::move(model));
  const absl::Status left = runtime->Shutdown(diverged.status());
  STRATA_RETURN_IF_ERROR(diverged.status());
  // Every rank has seen it, so that none ends because another one says so.
  return diverged->empty() ? left : absl::OutOfRangeError(*diverged);
}

}  // namespace strata
