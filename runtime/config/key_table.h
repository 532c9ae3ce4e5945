#pragma once

#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/config/train_config.h"

namespace strata {

// Where a key's value lies in a TrainConfig, and thereby its type.
struct IntegerField {
  int64_t* value;
};
struct NumberField {
  double* value;
};
struct SizeField {
  int64_t* bytes;
};
struct RateField {
  int64_t* bytes_per_second;
};
struct DurationField {
  absl::Duration* value;
};
struct TextField {
  std::string* value;
};  // one of Key::choices, if there are any
struct ChoiceField {
  uint8_t* value;
};  // an enumeration; its enumerators in order are the choices
struct IntegersField {
  std::vector<int64_t>* values;
};
struct NamesField {
  std::vector<std::string>* values;
};
using Field = std::variant<IntegerField, NumberField, SizeField, RateField, DurationField,
                           TextField, ChoiceField, IntegersField, NamesField>;

// What numbers, sizes (in bytes) and durations (in seconds) may be, and each member of a list.
struct Range {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool below = false;  // `most` itself is too much
};

// A key means something only where another one has this value.
struct Condition {
  const char* key = nullptr;  // null: always
  const char* value = nullptr;
};

// One key of the configuration file: everything that parsing, help, the reference and the effective
// values need to know about it.
struct Key {
  const char* path;  // "train.steps"
  Field (*field)(TrainConfig&);
  const char* fallback;  // the default, as text; null: required where it applies
  const char* help;      // a sentence
  Range range = {};
  std::vector<std::string> choices = {};
  Condition when = {};
  const char* same_as = nullptr;  // without a value it is that of this key, which comes before
};

// Every key, in the order in which they are shown.
std::span<const Key> Keys();

// -1 if there is none.
int FindKey(absl::string_view path);

// Whether there are keys below `path`. A key with keys below it (layout) is "custom" when those are
// given.
bool IsSection(absl::string_view path);
inline constexpr char kCustom[] = "custom";

// How many characters to add, drop or change to make one of the other.
int EditDistance(absl::string_view a, absl::string_view b);

// The key that somebody most likely meant by `path`.
const Key& NearestKey(absl::string_view path);

}  // namespace strata
