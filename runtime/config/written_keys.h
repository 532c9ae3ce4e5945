#pragma once

#include <string>
#include <vector>

#include "runtime/config/key_value.h"

namespace strata {

// A key that somebody gave a value.
struct WrittenKey {
  int key = 0;  // index into Keys()
  WrittenValue value;
  std::string origin;         // "train.yaml:7", "--set"
  bool from_section = false;  // it is "custom" because keys below it are given
};

// What somebody wrote, in order, and one line for each thing that cannot be understood.
struct WrittenKeys {
  std::vector<WrittenKey> keys;
  std::vector<std::string> problems;

  // `problem` is about `path` at `origin`.
  void AddProblem(const std::string& origin, const std::string& path, const std::string& problem);
};

// Appends what the YAML document `text` says; `name` is the file's, for origins. InvalidArgument if
// it is no map of keys at all.
absl::Status ReadYaml(const std::string& text, const std::string& name, WrittenKeys& written);

// Appends what "key.path=value" says; the value is YAML as in a file.
void ReadOverride(const std::string& assignment, WrittenKeys& written);

}  // namespace strata
