// What people read about the configuration: effective values, help, reference. All from the table.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "runtime/config/config.h"
#include "runtime/config/key_value.h"

namespace strata {
namespace {

std::string SectionOf(const Key& key) {
  const std::string path = key.path;
  return path.substr(0, path.find('.'));
}

std::string NameInSection(const Key& key) {
  const std::string path = key.path;
  return path.substr(path.find('.') + 1);
}

std::string DefaultOf(const Key& key) {
  if (key.same_as != nullptr) return absl::StrCat("as ", key.same_as);
  if (key.fallback == nullptr) return "required";
  return *key.fallback == '\0' ? "empty" : key.fallback;
}

std::string ConditionOf(const Key& key) {
  if (key.when.key == nullptr) return "";
  return absl::StrCat("Where ", key.when.key, " is ", key.when.value, ".");
}

std::string Commented(const std::string& line, const std::string& comment) {
  return absl::StrFormat("%-40s # %s\n", line, comment);
}

}  // namespace

std::string Config::Effective() const {
  std::string text, section;
  for (size_t i = 0; i < Keys().size(); ++i) {
    const Key& key = Keys()[i];
    if (!Applies(key, values_)) continue;
    const std::string value = FormatValue(key, values_);
    const bool opens = section != SectionOf(key);
    section = SectionOf(key);
    const bool is_section = key.path == section;
    if (is_section) {
      absl::StrAppend(&text, Commented(absl::StrCat(section, value == kCustom ? ":" : ": " + value),
                                       origins_[i]));
      continue;
    }
    if (opens) absl::StrAppend(&text, section, ":\n");
    absl::StrAppend(&text,
                    Commented(absl::StrCat("  ", NameInSection(key), ": ", value), origins_[i]));
  }
  return text;
}

std::string ConfigHelp() {
  std::string text;
  for (const Key& key : Keys()) {
    absl::StrAppendFormat(&text, "  %-24s %s (%s)\n  %24s %s%s\n", key.path, DescribeAllowed(key),
                          DefaultOf(key), "", key.help,
                          key.when.key == nullptr ? "" : " " + ConditionOf(key));
  }
  return text;
}

std::string ConfigReference() {
  std::string text, section;
  for (const Key& key : Keys()) {
    if (section != SectionOf(key)) {
      section = SectionOf(key);
      absl::StrAppend(&text, "\n## ", section,
                      "\n\n| key | what is allowed | default | meaning |\n|---|---|---|---|\n");
    }
    absl::StrAppend(&text, "| `", key.path, "` | ", DescribeAllowed(key), " | ", DefaultOf(key),
                    " | ", key.help, key.when.key == nullptr ? "" : " " + ConditionOf(key), " |\n");
  }
  return text;
}

}  // namespace strata
