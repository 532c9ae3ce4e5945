#include "comm/control/messages.h"

#include "comm/control/wire.h"
#include "kernels/status.h"

namespace strata {
namespace {

// Changes with the meaning of any control message.
constexpr uint32_t kVersion = 1;

// Of an error's text; keeps any message below what a connection takes.
constexpr size_t kMaxReasonBytes = 64 * 1024;

}  // namespace

std::string ControlHello::Encode() const {
  WireWriter writer;
  writer.PutU32(kVersion);
  writer.PutU32(launcher_rank);
  writer.PutU32(size);
  writer.PutString(host);
  writer.PutString(node);
  writer.PutString(fingerprint);
  return writer.Take();
}

absl::StatusOr<ControlHello> ControlHello::Decode(absl::string_view bytes) {
  WireReader reader(bytes);
  STRATA_ASSIGN_OR_RETURN(const uint32_t version, reader.U32());
  if (version != kVersion) {
    return absl::DataLossError(absl::StrCat("it speaks version ", version,
                                            " of the control protocol, this rank speaks ", kVersion,
                                            "; run one version of Strata on all ranks"));
  }
  ControlHello hello;
  STRATA_ASSIGN_OR_RETURN(hello.launcher_rank, reader.U32());
  STRATA_ASSIGN_OR_RETURN(hello.size, reader.U32());
  STRATA_ASSIGN_OR_RETURN(hello.host, reader.String());
  STRATA_ASSIGN_OR_RETURN(hello.node, reader.String());
  STRATA_ASSIGN_OR_RETURN(hello.fingerprint, reader.String());
  STRATA_RETURN_IF_ERROR(reader.End());
  return hello;
}

std::string EncodeStatus(const absl::Status& status) {
  WireWriter writer;
  writer.PutU32(static_cast<uint32_t>(status.code()));
  writer.PutString(absl::string_view(status.message()).substr(0, kMaxReasonBytes));
  return writer.Take();
}

absl::Status DecodeStatus(absl::string_view bytes) {
  WireReader reader(bytes);
  STRATA_ASSIGN_OR_RETURN(const uint32_t code, reader.U32());
  STRATA_ASSIGN_OR_RETURN(const std::string message, reader.String());
  STRATA_RETURN_IF_ERROR(reader.End());
  if (code == 0 || code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::DataLossError(absl::StrCat("malformed control message: status code ", code));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

std::string EncodeStrings(const std::vector<std::string>& strings) {
  WireWriter writer;
  writer.PutStrings(strings);
  return writer.Take();
}

absl::StatusOr<std::vector<std::string>> DecodeStrings(absl::string_view bytes, size_t count) {
  WireReader reader(bytes);
  STRATA_ASSIGN_OR_RETURN(std::vector<std::string> strings, reader.Strings());
  STRATA_RETURN_IF_ERROR(reader.End());
  if (strings.size() != count) {
    return absl::DataLossError(
        absl::StrCat("malformed control message: ", strings.size(), " entries instead of ", count));
  }
  return strings;
}

}  // namespace strata
