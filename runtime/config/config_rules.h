#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/config/train_config.h"

namespace strata {

// What must hold between keys.
struct ConfigRule {
  std::vector<const char*> keys;  // the first is to blame; checked only if all of them apply
  bool (*holds)(const TrainConfig&);
  std::string (*broken)(const TrainConfig&);  // what to say when it does not
};

std::span<const ConfigRule> ConfigRules();

}  // namespace strata
