#include "runtime/config/config.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/status.h"
#include "runtime/config/config_rules.h"
#include "runtime/config/regular_file.h"
#include "runtime/config/written_keys.h"

namespace strata {
namespace {

constexpr int64_t kMostBytes = 1 << 20;  // a configuration is written by hand

}  // namespace

// Puts what is written, and defaults for the rest, into a Config, collecting problems on the way.
class ConfigBuilder {
 public:
  ConfigBuilder(WrittenKeys written, std::string name)
      : written_(std::move(written)),
        name_(std::move(name)),
        chosen_(Keys().size(), nullptr),
        wrong_(Keys().size(), false) {
    config_.origins_.assign(Keys().size(), "default");
  }

  absl::StatusOr<Config> Build() {
    for (const WrittenKey& key : written_.keys) Choose(key);
    for (size_t i = 0; i < Keys().size(); ++i) SetDefault(Keys()[i]);
    for (size_t i = 0; i < Keys().size(); ++i) Set(i);
    for (size_t i = 0; i < Keys().size(); ++i) CheckApplies(i);
    for (const ConfigRule& rule : ConfigRules()) CheckRule(rule);
    const std::vector<std::string>& problems = written_.problems;
    if (problems.empty()) return std::move(config_);
    return absl::InvalidArgumentError(absl::StrJoin(problems, ";\n"));
  }

 private:
  // Later ones win, but one file does not say a thing twice.
  void Choose(const WrittenKey& key) {
    const char* path = Keys()[key.key].path;
    const WrittenKey*& chosen = chosen_[key.key];
    const bool both_in_file = chosen != nullptr && InFile(*chosen) && InFile(key);
    if (both_in_file) {
      written_.AddProblem(key.origin, path, absl::StrCat("is given before, at ", chosen->origin));
    }
    chosen = &key;
    if (key.from_section) return;
    for (size_t i = 0; i < Keys().size(); ++i) {
      if (absl::StartsWith(Keys()[i].path, absl::StrCat(path, "."))) chosen_[i] = nullptr;
    }
  }

  bool InFile(const WrittenKey& key) const { return absl::StartsWith(key.origin, name_); }

  void SetDefault(const Key& key) {
    if (key.fallback == nullptr) return;
    STRATA_CHECK(SetValue(key, {false, {key.fallback}}, config_.values_).ok());
  }

  void Set(size_t i) {
    const Key& key = Keys()[i];
    if (chosen_[i] == nullptr && key.same_as != nullptr) {
      const std::string same = FormatValue(Keys()[FindKey(key.same_as)], config_.values_);
      STRATA_CHECK(SetValue(key, {false, {same}}, config_.values_).ok());
      config_.origins_[i] = absl::StrCat("default, as ", key.same_as);
    }
    if (chosen_[i] == nullptr) return;
    config_.origins_[i] = chosen_[i]->origin;
    const absl::Status status = SetValue(key, chosen_[i]->value, config_.values_);
    if (status.ok()) return;
    wrong_[i] = true;
    written_.AddProblem(chosen_[i]->origin, key.path, std::string(status.message()));
  }

  void CheckApplies(size_t i) {
    const Key& key = Keys()[i];
    // What depends on a value that is not known is not judged.
    if (key.when.key != nullptr && wrong_[FindKey(key.when.key)]) return;
    const bool applies = Applies(key, config_.values_);
    if (!applies && chosen_[i] != nullptr) {
      written_.AddProblem(
          chosen_[i]->origin, key.path,
          absl::StrCat("means something only where ", key.when.key, " is ", key.when.value));
    }
    if (applies && chosen_[i] == nullptr && key.fallback == nullptr) {
      wrong_[i] = true;
      written_.AddProblem(name_, key.path,
                          absl::StrCat("is missing; it is ", DescribeAllowed(key), ": ", key.help));
    }
  }

  void CheckRule(const ConfigRule& rule) {
    for (const char* path : rule.keys) {
      const int key = FindKey(path);
      if (wrong_[key] || !Applies(Keys()[key], config_.values_)) return;
    }
    if (rule.holds(config_.values_)) return;
    const int blamed = FindKey(rule.keys[0]);
    const std::string& origin = config_.origins_[blamed];
    written_.AddProblem(absl::StartsWith(origin, "default") ? name_ + ": default" : origin,
                        rule.keys[0], rule.broken(config_.values_));
  }

  WrittenKeys written_;
  const std::string name_;
  std::vector<const WrittenKey*> chosen_;  // per key, in written_; null: default
  std::vector<bool> wrong_;                // per key: no usable value
  Config config_;
};

absl::StatusOr<Config> Config::Parse(const std::string& text, const std::string& name,
                                     std::span<const std::string> overrides) {
  WrittenKeys written;
  STRATA_RETURN_IF_ERROR(ReadYaml(text, name, written));
  for (const std::string& assignment : overrides) ReadOverride(assignment, written);
  return ConfigBuilder(std::move(written), name).Build();
}

absl::StatusOr<Config> Config::Load(const std::string& file,
                                    std::span<const std::string> overrides) {
  const absl::StatusOr<std::string> text = ReadRegularFile(file, kMostBytes);
  if (!text.ok()) {
    return Annotate(text.status(), absl::StrCat("configuration file ", file, " cannot be read"));
  }
  return Parse(*text, file, overrides);
}

}  // namespace strata
