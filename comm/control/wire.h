#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata {

// Appends fields of a control message, little endian.
class WireWriter {
 public:
  void PutU32(uint32_t value);
  void PutString(absl::string_view text);  // length, then bytes
  void PutStrings(const std::vector<std::string>& texts);

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads fields in the order in which they were written. What does not fit is DataLoss: no field
// reaches beyond the message, and nothing is allocated for more than the message holds.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<uint32_t> U32();
  absl::StatusOr<std::string> String();
  absl::StatusOr<std::vector<std::string>> Strings();

  // DataLoss when something is left.
  absl::Status End() const;

 private:
  absl::string_view bytes_;
};

}  // namespace strata
