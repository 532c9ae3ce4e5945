#include "kernels/rate.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata {

absl::StatusOr<int64_t> ParseRate(const std::string& text) {
  struct Unit {
    const char* suffix;
    double bits_per_second;
  };
  constexpr Unit kUnits[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  const std::string lower = absl::AsciiStrToLower(text);
  for (const Unit& unit : kUnits) {
    if (!absl::EndsWith(lower, unit.suffix)) continue;
    double value = 0;
    const std::string number = lower.substr(0, lower.size() - 4);
    if (!absl::SimpleAtod(number, &value) || !std::isfinite(value)) break;
    const double rate = value * unit.bits_per_second;
    // A link outside these is a slip of the pen.
    if (rate < 8e3 || rate > 400e9) {
      return absl::InvalidArgumentError(
          absl::StrCat("rate \"", text, "\" is outside 8kbit to 400gbit"));
    }
    return static_cast<int64_t>(std::llround(rate));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rate \"", text, "\" is not a number with kbit, mbit or gbit, as in 100mbit"));
}

}  // namespace strata
