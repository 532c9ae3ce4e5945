#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "comm/control/rendezvous.h"
#include "kernels/status.h"

namespace strata {
namespace {

using Fields = std::map<std::string, std::string>;

// What is no object is one field without a name.
Fields ParseFields(const std::string& fingerprint) {
  const auto json = nlohmann::json::parse(fingerprint, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {{"fingerprint", fingerprint}};
  Fields fields;
  for (const auto& [key, value] : json.items()) {
    fields[key] = value.is_string()
                      ? value.get<std::string>()
                      : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return fields;
}

// At most three names: a world may have thousands of ranks.
std::string Names(const std::vector<const ControlHello*>& ranks) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(ranks.size(), 3); ++i) {
    names.push_back(LauncherName(*ranks[i]));
  }
  std::string text = absl::StrJoin(names, ", ");
  if (ranks.size() > 3) absl::StrAppend(&text, " and ", ranks.size() - 3, " more");
  return text;
}

}  // namespace

std::string LauncherName(const ControlHello& rank) {
  return absl::StrCat("launcher rank ", rank.launcher_rank, " (host ", rank.host, ")");
}

absl::Status CompareFingerprints(const std::vector<ControlHello>& ranks) {
  std::vector<Fields> fields;
  std::set<std::string> keys;
  for (const ControlHello& rank : ranks) {
    fields.push_back(ParseFields(rank.fingerprint));
    for (const auto& [key, value] : fields.back()) keys.insert(key);
  }
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    std::map<std::string, std::vector<const ControlHello*>> by_value;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto found = fields[i].find(key);
      by_value[found == fields[i].end() ? "nothing" : absl::StrCat("\"", found->second, "\"")]
          .push_back(&ranks[i]);
    }
    if (by_value.size() == 1) continue;
    std::vector<std::string> sides;
    for (const auto& [value, holders] : by_value) {
      sides.push_back(absl::StrCat(value, " on ", Names(holders)));
    }
    differences.push_back(absl::StrCat(key, " is ", absl::StrJoin(sides, " but ")));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the ranks differ: ", absl::StrJoin(differences, "; "), "; make them equal on all ranks"));
}

}  // namespace strata
