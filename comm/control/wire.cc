#include "comm/control/wire.h"

#include "kernels/status.h"

namespace strata {
namespace {

absl::Status Short() { return absl::DataLossError("malformed control message: too short"); }

}  // namespace

void WireWriter::PutU32(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    bytes_.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

void WireWriter::PutString(absl::string_view text) {
  PutU32(static_cast<uint32_t>(text.size()));
  bytes_.append(text.data(), text.size());
}

void WireWriter::PutStrings(const std::vector<std::string>& texts) {
  PutU32(static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) PutString(text);
}

absl::StatusOr<uint32_t> WireReader::U32() {
  if (bytes_.size() < 4) return Short();
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
  }
  bytes_.remove_prefix(4);
  return value;
}

absl::StatusOr<std::string> WireReader::String() {
  STRATA_ASSIGN_OR_RETURN(const uint32_t length, U32());
  if (bytes_.size() < length) return Short();
  std::string text(bytes_.substr(0, length));
  bytes_.remove_prefix(length);
  return text;
}

absl::StatusOr<std::vector<std::string>> WireReader::Strings() {
  STRATA_ASSIGN_OR_RETURN(const uint32_t count, U32());
  if (bytes_.size() / 4 < count) return Short();
  std::vector<std::string> texts(count);
  for (std::string& text : texts) {
    STRATA_ASSIGN_OR_RETURN(text, String());
  }
  return texts;
}

absl::Status WireReader::End() const {
  if (bytes_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("malformed control message: ", bytes_.size(), " bytes too many"));
}

}  // namespace strata
