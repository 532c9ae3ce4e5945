#include "runtime/config/quantity.h"

#include <cmath>
#include <span>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata {
namespace {

struct Scale {
  const char* suffix;
  int64_t factor;
};

// Largest first.
constexpr Scale kSizes[] = {
    {"GiB", int64_t{1} << 30}, {"MiB", int64_t{1} << 20}, {"KiB", int64_t{1} << 10}};
constexpr Scale kRates[] = {{"gbit", 1000000000}, {"mbit", 1000000}, {"kbit", 1000}};

std::string Format(int64_t value, std::span<const Scale> scales) {
  for (const Scale& scale : scales) {
    if (value != 0 && value % scale.factor == 0) {
      return absl::StrCat(value / scale.factor, scale.suffix);
    }
  }
  return absl::StrCat(value);
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(const std::string& text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("size \"", text, "\" is not a whole number of bytes, KiB, MiB or GiB"));
  double factor = 1;
  std::string number = text;
  for (const Scale& scale : kSizes) {
    if (!absl::EndsWith(text, scale.suffix)) continue;
    factor = static_cast<double>(scale.factor);
    number.resize(text.size() - 3);
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value)) return wrong;
  const double bytes = value * factor;
  // Doubles hold every whole number up to 2^53, which is far more than any memory.
  if (!(bytes >= 0 && bytes <= 0x1p53) || bytes != std::floor(bytes)) return wrong;
  return static_cast<int64_t>(bytes);
}

std::string FormatSize(int64_t bytes) { return Format(bytes, kSizes); }

std::string FormatRate(int64_t bits_per_second) { return Format(bits_per_second, kRates); }

}  // namespace strata
