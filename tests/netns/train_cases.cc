// One rank that trains several configurations one after the other, in one process, so that a test
// of many cases starts its processes once. Arguments: CONFIG.yaml CASES.json FOLDER. The cases are
// [{"name": …, "set": ["key=value", …]}, …]; rank 0 writes FOLDER/NAME.jsonl.

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/train/trainer.h"
#include "nlohmann/json.hpp"
#include "runtime/config/config.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::ifstream file(argv[2]);
  for (const nlohmann::json& item : nlohmann::json::parse(file)) {
    const auto overrides = item["set"].get<std::vector<std::string>>();
    const auto name = item["name"].get<std::string>();
    absl::StatusOr<strata::Config> config = strata::Config::Load(argv[1], overrides);
    absl::Status status = config.status();
    if (status.ok()) {
      status = strata::Train({config->values(), std::string(argv[3]) + "/" + name + ".jsonl", ""});
    }
    if (!status.ok()) {
      std::fprintf(stderr, "case %s: %s\n", name.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}
