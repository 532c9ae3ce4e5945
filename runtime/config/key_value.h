#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/config/key_table.h"

namespace strata {

// A value as it was written: one text, or a list of texts.
struct WrittenValue {
  bool is_list = false;
  std::vector<std::string> items;  // exactly one unless `is_list`
};

// Puts `written` into the key's field. InvalidArgument says what was written and what is allowed.
absl::Status SetValue(const Key& key, const WrittenValue& written, TrainConfig& config);

// The key's value as YAML; SetValue reads it back.
std::string FormatValue(const Key& key, const TrainConfig& config);

// `text` as YAML writes it: as it is, or in quotes where YAML would read something else.
std::string YamlText(const std::string& text);

// "an integer of at least 1", "one of f32, bf16".
std::string DescribeAllowed(const Key& key);

// Whether `config` gives the key a meaning.
bool Applies(const Key& key, const TrainConfig& config);

}  // namespace strata
