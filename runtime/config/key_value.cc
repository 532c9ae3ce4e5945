#include "runtime/config/key_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/rate.h"
#include "runtime/config/quantity.h"

namespace strata {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

constexpr char kUnknownRate[] = "unknown";

bool InRange(double value, const Range& range) {
  return value >= range.least && (range.below ? value < range.most : value <= range.most);
}

bool ParseInteger(const std::string& text, const Range& range, int64_t& value) {
  return absl::SimpleAtoi(text, &value) && InRange(static_cast<double>(value), range);
}

bool ParseNumber(const std::string& text, const Range& range, double& value) {
  return absl::SimpleAtod(text, &value) && std::isfinite(value) && InRange(value, range);
}

bool ParseBytes(const std::string& text, const Range& range, int64_t& bytes) {
  const absl::StatusOr<int64_t> size = ParseSize(text);
  if (!size.ok() || !InRange(static_cast<double>(*size), range)) return false;
  bytes = *size;
  return true;
}

bool ParseLinkRate(const std::string& text, int64_t& bytes_per_second) {
  if (text == kUnknownRate) {
    bytes_per_second = 0;
    return true;
  }
  const absl::StatusOr<int64_t> bits = ParseRate(text);
  if (!bits.ok()) return false;
  bytes_per_second = *bits / 8;
  return true;
}

bool ParseDuration(const std::string& text, const Range& range, absl::Duration& value) {
  return absl::ParseDuration(text, &value) && InRange(absl::ToDoubleSeconds(value), range);
}

bool ParseChoice(const std::string& text, const std::vector<std::string>& choices, uint8_t& value) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  value = static_cast<uint8_t>(found - choices.begin());
  return found != choices.end();
}

bool ParseText(const Key& key, const std::string& text, std::string& value) {
  value = text;
  if (key.fallback == nullptr && text.empty()) return false;
  return key.choices.empty() ||
         std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
}

// Parses one text into the field of `config`; a list field gets it as a further member.
bool ParseItem(const Key& key, const std::string& text, TrainConfig& config) {
  const Range& range = key.range;
  return std::visit(
      Overloaded{
          [&](IntegerField f) { return ParseInteger(text, range, *f.value); },
          [&](NumberField f) { return ParseNumber(text, range, *f.value); },
          [&](SizeField f) { return ParseBytes(text, range, *f.bytes); },
          [&](RateField f) { return ParseLinkRate(text, *f.bytes_per_second); },
          [&](DurationField f) { return ParseDuration(text, range, *f.value); },
          [&](TextField f) { return ParseText(key, text, *f.value); },
          [&](ChoiceField f) { return ParseChoice(text, key.choices, *f.value); },
          [&](IntegersField f) { return ParseInteger(text, range, f.values->emplace_back()); },
          [&](NamesField f) { return !f.values->emplace_back(text).empty(); },
      },
      key.field(config));
}

bool IsList(const Field& field) {
  return std::holds_alternative<IntegersField>(field) || std::holds_alternative<NamesField>(field);
}

std::string DescribeRange(const Range& range, const std::function<std::string(double)>& format) {
  if (std::isinf(range.most)) return absl::StrCat(" of at least ", format(range.least));
  return absl::StrCat(" from ", format(range.least), range.below ? " to below " : " to ",
                      format(range.most));
}

std::string FormatNumber(double value) {
  char text[32];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, result.ptr);
}

std::string FormatInteger(double value) { return absl::StrCat(static_cast<int64_t>(value)); }

std::string FormatBytes(double value) { return FormatSize(static_cast<int64_t>(value)); }

std::string FormatSeconds(double value) { return absl::FormatDuration(absl::Seconds(value)); }

std::string FormatLinkRate(int64_t bytes_per_second) {
  return bytes_per_second == 0 ? kUnknownRate : FormatRate(bytes_per_second * 8);
}

std::string Bracketed(const std::string& members) { return absl::StrCat("[", members, "]"); }

std::string Quoted(const WrittenValue& written) {
  return written.is_list ? Bracketed(absl::StrJoin(written.items, ", "))
                         : absl::StrCat("\"", written.items[0], "\"");
}

}  // namespace

std::string YamlText(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '-';
  });
  if (plain && text[0] != '-') return text;
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\x%02x", byte);
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

absl::Status SetValue(const Key& key, const WrittenValue& written, TrainConfig& config) {
  TrainConfig changed = config;
  const Field field = key.field(changed);
  if (const auto* list = std::get_if<IntegersField>(&field)) list->values->clear();
  if (const auto* list = std::get_if<NamesField>(&field)) list->values->clear();
  const bool parsed =
      written.is_list == IsList(field) &&
      std::all_of(written.items.begin(), written.items.end(),
                  [&](const std::string& item) { return ParseItem(key, item, changed); });
  if (!parsed) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(written), " is not ", DescribeAllowed(key)));
  }
  config = std::move(changed);
  return absl::OkStatus();
}

std::string FormatValue(const Key& key, const TrainConfig& config) {
  TrainConfig copy = config;  // fields are addresses of values that may change; these do not
  return std::visit(Overloaded{
                        [](IntegerField f) { return absl::StrCat(*f.value); },
                        [](NumberField f) { return FormatNumber(*f.value); },
                        [](SizeField f) { return FormatSize(*f.bytes); },
                        [](RateField f) { return FormatLinkRate(*f.bytes_per_second); },
                        [](DurationField f) { return absl::FormatDuration(*f.value); },
                        [](TextField f) { return YamlText(*f.value); },
                        [&key](ChoiceField f) { return key.choices[*f.value]; },
                        [](IntegersField f) { return Bracketed(absl::StrJoin(*f.values, ", ")); },
                        [](NamesField f) {
                          return Bracketed(absl::StrJoin(
                              *f.values, ", ", [](std::string* out, const std::string& s) {
                                absl::StrAppend(out, YamlText(s));
                              }));
                        },
                    },
                    key.field(copy));
}

std::string DescribeAllowed(const Key& key) {
  TrainConfig any;
  const Range& range = key.range;
  return std::visit(
      Overloaded{
          [&](IntegerField) { return "an integer" + DescribeRange(range, FormatInteger); },
          [&](NumberField) { return "a number" + DescribeRange(range, FormatNumber); },
          [&](SizeField) { return "a size (KiB, MiB, GiB)" + DescribeRange(range, FormatBytes); },
          [&](RateField) { return std::string("a rate (kbit, mbit, gbit) or unknown"); },
          [&](DurationField) {
            return "a duration (ms, s, m, h)" + DescribeRange(range, FormatSeconds);
          },
          [&](TextField) {
            if (!key.choices.empty()) return "one of " + absl::StrJoin(key.choices, ", ");
            return std::string(key.fallback == nullptr ? "text that is not empty" : "text");
          },
          [&](ChoiceField) {
            return key.choices.size() == 1 ? key.choices[0]
                                           : "one of " + absl::StrJoin(key.choices, ", ");
          },
          [&](IntegersField) {
            return "a list of integers, each" + DescribeRange(range, FormatInteger);
          },
          [&](NamesField) { return std::string("a list of level names"); },
      },
      key.field(any));
}

bool Applies(const Key& key, const TrainConfig& config) {
  return key.when.key == nullptr ||
         FormatValue(Keys()[FindKey(key.when.key)], config) == key.when.value;
}

}  // namespace strata
