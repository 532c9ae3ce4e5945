#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace strata {

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

// Unpredictable bytes; a challenge is used once.
Nonce MakeNonce();

// HMAC-SHA256 of `message` under the job token. Any thread.
Mac Hmac(absl::string_view token, absl::string_view message);

// Equal? In a time that does not depend on where they differ.
bool SameMac(const Mac& a, const Mac& b);

}  // namespace strata
