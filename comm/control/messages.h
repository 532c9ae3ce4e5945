#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata {

// The control plane is a star: every rank holds one connection to launcher rank 0. Only these
// messages travel on it, after both ends have proved that they know the job token.
enum class ControlKind : uint8_t {
  kHello = 1,    // to 0: who I am
  kRoster,       // from 0: who all are
  kRefused,      // from 0: the world cannot be formed; why
  kHeartbeat,    // both ways
  kShare,        // to 0: my part of an exchange
  kShares,       // from 0: the parts of all, in rank order
  kGoodbye,      // both ways: I have finished and want to leave
  kFailed,       // to 0: I end with an error; why
  kVerdict,      // from 0: why the world ends
  kVerdictSeen,  // to 0: the verdict is known here
  kEnd,          // from 0: all have finished, or know the verdict; leave now
};

// What each rank says of itself.
struct ControlHello {
  uint32_t launcher_rank = 0;
  uint32_t size = 0;  // of the world, as this rank was told
  std::string host;
  std::string node;
  std::string fingerprint;

  std::string Encode() const;
  // DataLoss unless well formed.
  static absl::StatusOr<ControlHello> Decode(absl::string_view bytes);
};

// The message of kRefused, kFailed and kVerdict: code and text.
std::string EncodeStatus(const absl::Status& status);
// Never OK: DataLoss unless it is the well-formed message of an error.
absl::Status DecodeStatus(absl::string_view bytes);

std::string EncodeStrings(const std::vector<std::string>& strings);
// DataLoss unless it holds `count` strings and nothing else.
absl::StatusOr<std::vector<std::string>> DecodeStrings(absl::string_view bytes, size_t count);

}  // namespace strata
