#include "cli/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace strata {

absl::Status WriteAll(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(fd, text.data() + at, text.size() - at);
    if (written >= 0) {
      at += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd room = {fd, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& option, const std::string& path) {
  std::string name = absl::StrCat(option, ": cannot write \"", path, "\"");
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return absl::InvalidArgumentError(absl::StrCat(name, ": ", std::strerror(errno)));
  return OutputFile(fd, std::move(name));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(name_, other.name_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status OutputFile::Write(const std::string& text) {
  return Annotate(WriteAll(fd_, text), name_);
}

}  // namespace strata
