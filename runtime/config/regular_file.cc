#include "runtime/config/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/config/quantity.h"

namespace strata {
namespace {

absl::Status Errno() { return absl::InvalidArgumentError(std::strerror(errno)); }

absl::Status CheckFile(const struct stat& info, int64_t most_bytes) {
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(std::strerror(EISDIR));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("it is ",
                                                   S_ISFIFO(info.st_mode) ? "a pipe" : "a device",
                                                   ", and only regular files are read"));
  }
  if (info.st_size <= most_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it has ", info.st_size, " bytes, and at most ",
                                                 FormatSize(most_bytes), " are read"));
}

}  // namespace

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, int64_t most_bytes) {
  // O_NONBLOCK: opening a pipe does not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return Errno();
  const absl::Cleanup closes = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return Errno();
  if (absl::Status status = CheckFile(info, most_bytes); !status.ok()) return status;
  // Files of /proc say that they are empty; a file may grow while it is read.
  std::string bytes;
  char part[1 << 16];
  while (static_cast<int64_t>(bytes.size()) < most_bytes) {
    const auto left = static_cast<size_t>(most_bytes) - bytes.size();
    const ssize_t count = read(fd, part, std::min(left, sizeof(part)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Errno();
    if (count == 0) break;
    bytes.append(part, static_cast<size_t>(count));
  }
  return bytes;
}

}  // namespace strata
