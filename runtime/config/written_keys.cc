#include "runtime/config/written_keys.h"

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "yaml-cpp/yaml.h"

namespace strata {
namespace {

constexpr char kSetOrigin[] = "--set";

// Names where a node stands.
using OriginOf = std::function<std::string(const YAML::Node&)>;

std::string KeysBelow(const std::string& path) {
  std::vector<std::string> names;
  const std::string prefix = path + ".";
  for (const Key& key : Keys()) {
    if (absl::StartsWith(key.path, prefix)) names.push_back(key.path + prefix.size());
  }
  return absl::StrJoin(names, ", ");
}

class Reader {
 public:
  Reader(OriginOf origin_of, WrittenKeys& written)
      : origin_of_(std::move(origin_of)), written_(written) {}

  // `place` is the node that names `path`, for its line.
  void Read(const std::string& path, const YAML::Node& place, const YAML::Node& value) {
    const std::string origin = origin_of_(place);
    const int key = FindKey(path);
    const bool section = IsSection(path);
    if (key < 0 && !section) {
      written_.AddProblem(
          origin, path,
          absl::StrCat("there is no such key; the nearest is ", NearestKey(path).path));
    } else if (section && value.IsMap()) {
      if (key >= 0) written_.keys.push_back({key, {false, {kCustom}}, origin, true});
      ReadMembers(path + ".", value);
    } else if (key < 0 && value.IsNull()) {
      // A section of which every key is left out.
    } else if (key < 0) {
      written_.AddProblem(
          origin, path,
          absl::StrCat("is a group of keys, not a value; its keys: ", KeysBelow(path)));
    } else {
      ReadValue(key, origin, value);
    }
  }

  void ReadMembers(const std::string& prefix, const YAML::Node& map) {
    for (const auto& member : map) {
      if (!member.first.IsScalar()) {
        written_.AddProblem(origin_of_(member.first), prefix, "a key that is not a word");
        continue;
      }
      Read(prefix + member.first.Scalar(), member.first, member.second);
    }
  }

 private:
  void ReadValue(int key, const std::string& origin, const YAML::Node& value) {
    WrittenValue text{.is_list = value.IsSequence()};
    bool simple = value.IsScalar() || value.IsSequence();
    if (value.IsScalar()) text.items.push_back(value.Scalar());
    if (value.IsSequence()) {
      for (const YAML::Node& item : value) {
        simple = simple && item.IsScalar();
        text.items.push_back(item.IsScalar() ? item.Scalar() : "");
      }
    }
    if (!simple) {
      written_.AddProblem(origin, Keys()[key].path,
                          absl::StrCat(value.IsNull() ? "nothing" : "a map or a nested list",
                                       " is not ", DescribeAllowed(Keys()[key])));
      return;
    }
    written_.keys.push_back({key, std::move(text), origin});
  }

  OriginOf origin_of_;
  WrittenKeys& written_;
};

}  // namespace

void WrittenKeys::AddProblem(const std::string& origin, const std::string& path,
                             const std::string& problem) {
  problems.push_back(absl::StrCat(origin, ": ", path, ": ", problem));
}

absl::Status ReadYaml(const std::string& text, const std::string& name, WrittenKeys& written) {
  const auto origin_at = [&name](const YAML::Mark& mark) {
    return mark.is_null() ? name : absl::StrCat(name, ":", mark.line + 1);
  };
  try {
    const YAML::Node document = YAML::Load(text);
    if (document.IsNull()) return absl::OkStatus();
    if (!document.IsMap()) {
      return absl::InvalidArgumentError(absl::StrCat(
          origin_at(document.Mark()), ": not a map of keys, such as train: {steps: 5}"));
    }
    Reader([&](const YAML::Node& place) { return origin_at(place.Mark()); }, written)
        .ReadMembers("", document);
    return absl::OkStatus();
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin_at(error.mark), ": not YAML: ", error.msg));
  }
}

void ReadOverride(const std::string& assignment, WrittenKeys& written) {
  const size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  if (equals == std::string::npos || path.empty()) {
    written.AddProblem(kSetOrigin, assignment, "not of the form key=value, such as train.steps=5");
    return;
  }
  try {
    const YAML::Node value = YAML::Load(assignment.substr(equals + 1));
    Reader reader([](const YAML::Node&) { return std::string(kSetOrigin); }, written);
    const int section = FindKey(path.substr(0, path.rfind('.')));
    if (section >= 0 && FindKey(path) >= 0 && FindKey(path) != section) {
      written.keys.push_back({section, {false, {kCustom}}, kSetOrigin, true});
    }
    reader.Read(path, value, value);
  } catch (const YAML::Exception& error) {
    written.AddProblem(kSetOrigin, path, absl::StrCat("not YAML: ", error.msg));
  }
}

}  // namespace strata
