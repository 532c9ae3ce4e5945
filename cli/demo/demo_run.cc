#include "cli/demo/demo_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/exit_codes.h"
#include "cli/train/progress.h"
#include "cli/train/text.h"
#include "kernels/rate.h"
#include "kernels/status.h"
#include "runtime/config/key_value.h"

namespace strata {
namespace {

// 3.2 million parameters in six units. Few tokens a step: the network, not the processor, is what
// the demo is about.
constexpr int64_t kContext = 64;
constexpr char kConfig[] = R"(model:    {kind: gpt, layers: 4, width: 256, heads: 8, context: 64}
train:    {micro_batch: 1, accumulation: 4, seed: 1, optimizer: adamw, learning_rate: 2e-3, warmup: 2, schedule: cosine, weight_decay: 0.1, clip: 1.0, eval_every: 0}
compute:  {dtype: f32}
prefetch: {bytes: 32MiB}
)";

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text << std::flush;
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write \"", path, "\": ", std::strerror(errno)));
}

std::vector<std::string> Command(const DemoOptions& options, const std::string& layout,
                                 const std::string& prefix) {
  return {"/proc/self/exe",
          "lab",
          "run",
          "--nodes",
          absl::StrCat(options.nodes),
          "--ranks-per-node",
          absl::StrCat(options.ranks_per_node),
          "--link",
          options.link,
          "--",
          "/proc/self/exe",
          "train",
          absl::StrCat(options.folder, "/demo.yaml"),
          "--set",
          absl::StrCat("layout=", layout),
          "--set",
          absl::StrCat("data.text=", YamlText(options.text)),
          "--set",
          absl::StrCat("train.steps=", options.steps),
          "--set",
          absl::StrCat("network.rate=", options.link),
          "--metrics",
          prefix + ".jsonl",
          "--trace",
          prefix + ".trace.json"};
}

// Starts `words` with both outputs in `log`. The child is told to end when this process ends.
absl::StatusOr<pid_t> Start(std::vector<std::string> words, const std::string& log) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (length < 0) return absl::InternalError("cannot read /proc/self/exe");
  self[length] = '\0';
  std::vector<char*> arguments;
  for (std::string& word : words) {
    if (word == "/proc/self/exe") word = self;
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write \"", log, "\": ", std::strerror(errno)));
  }
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(file, 1);
    dup2(file, 2);
    execv(self, arguments.data());
    _exit(127);
  }
  close(file);
  if (child < 0) return absl::InternalError(absl::StrCat("fork: ", std::strerror(errno)));
  return child;
}

// The complete lines of a metrics file that is still being written.
std::vector<nlohmann::json> ReadMetrics(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_discarded()) lines.push_back(std::move(parsed));
  }
  return lines;
}

// Follows the run until it ends. Its exit code.
int Follow(pid_t child, const std::string& metrics, ProgressBar& progress) {
  int state = 0;
  while (waitpid(child, &state, WNOHANG) == 0) {
    absl::SleepFor(absl::Milliseconds(200));
    int64_t step = 0;
    double loss = 0;
    for (const nlohmann::json& line : ReadMetrics(metrics)) {
      if (!line.contains("loss") || !line["loss"].is_number()) continue;
      step = line["step"];
      loss = line["loss"];
    }
    progress.Show(step, step == 0 ? "starting" : absl::StrFormat("loss %.3f", loss));
  }
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

std::string LastLines(const std::string& path, size_t bytes) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

double PerStep(const nlohmann::json& summary, int64_t bytes) {
  return static_cast<double>(bytes) / summary["measured_steps"].get<double>();
}

// Means over the measured steps: the first ones record the order of use.
nlohmann::json Row(const std::vector<nlohmann::json>& lines, const std::string& layout) {
  const nlohmann::json& summary = lines.back()["summary"];
  nlohmann::json exposed = nlohmann::json::object();
  double overlap = 0, first_loss = 0;
  const int64_t measured = summary["measured_steps"];
  const int64_t first = summary["steps"].get<int64_t>() - measured + 1;
  for (const nlohmann::json& line : lines) {
    if (!line.contains("exposed_wait_seconds")) continue;
    if (line["step"] == 1) first_loss = line["loss"];
    if (line["step"] < first) continue;
    for (const auto& [level, seconds] : line["exposed_wait_seconds"].items()) {
      exposed[level] = exposed.value(level, 0.0) + seconds.get<double>() / measured;
    }
    overlap += line["overlap"]["cluster"].get<double>() / measured;
  }
  return {{"layout", layout},
          {"first_loss", first_loss},
          {"loss", summary["loss"]},
          {"parameters", summary["parameters"]},
          {"step_seconds", summary["median_step_seconds"]},
          {"ideal_step_seconds", summary["ideal_step_seconds"]},
          {"wire_bytes_per_node_step", PerStep(summary, summary["node_sent_bytes"]["cluster"])},
          {"counter_bytes_per_node_step", PerStep(summary, summary["interface_bytes"]["sent"])},
          {"exposed_wait_seconds", exposed},
          {"overlap", overlap},
          {"params_sha256", summary["params_sha256"]}};
}

}  // namespace

absl::Status CheckDemo(const DemoOptions& options) {
  STRATA_RETURN_IF_ERROR(Annotate(Text::Load(options.text, kContext).status(), "--text"));
  return Annotate(ParseRate(options.link).status(), "--link");
}

absl::Status ClaimFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return absl::InvalidArgumentError(
        absl::StrCat("--folder: cannot make \"", folder, "\": ", std::strerror(errno)));
  }
  const std::string path = folder + "/lock";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--folder: cannot write \"", path, "\": ", std::strerror(errno)));
  }
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  close(file);
  return absl::FailedPreconditionError(absl::StrCat(
      "another demo is running in \"", folder, "\"; wait for it, or give this one a --folder"));
}

absl::StatusOr<nlohmann::json> RunDemo(const DemoOptions& options, const std::string& layout) {
  STRATA_RETURN_IF_ERROR(WriteFile(options.folder + "/demo.yaml", kConfig));
  const std::string prefix = absl::StrCat(options.folder, "/", layout);
  const std::string metrics = prefix + ".jsonl", log = prefix + ".log";
  unlink(metrics.c_str());
  ProgressBar progress(layout, options.steps);
  STRATA_ASSIGN_OR_RETURN(pid_t child, Start(Command(options, layout, prefix), log));
  const int code = Follow(child, metrics, progress);
  const std::vector<nlohmann::json> lines = ReadMetrics(metrics);
  if (code != 0 || lines.empty() || !lines.back().contains("summary")) {
    const std::string message =
        absl::StrCat("the ", layout, " run ended with exit code ", code, "; its log, ", log,
                     ", ends with:\n", LastLines(log, 2000));
    return code == kExitBadInput ? absl::FailedPreconditionError(message)
                                 : absl::UnavailableError(message);
  }
  return Row(lines, layout);
}

}  // namespace strata
