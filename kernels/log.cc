#include "kernels/log.h"

#include <atomic>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace strata {
namespace {

std::atomic<int64_t> error_lines{0};

spdlog::level::level_enum LevelFromEnvironment() {
  const char* value = std::getenv("STRATA_LOG");
  const auto level = spdlog::level::from_str(value == nullptr ? "warning" : value);
  return level == spdlog::level::off ? spdlog::level::warn : level;
}

spdlog::logger& Logger() {
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger("strata", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%l strata: %v");
    made->set_level(LevelFromEnvironment());
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

}  // namespace

void Log(Severity severity, absl::string_view message) {
  if (severity == Severity::kError) ++error_lines;
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  Logger().log(kLevels[static_cast<int>(severity)],
               spdlog::string_view_t(message.data(), message.size()));
}

void SetLogLabel(std::string label) { Logger().set_pattern("%l strata[" + label + "]: %v"); }

int64_t ErrorLines() { return error_lines.load(); }

}  // namespace strata
