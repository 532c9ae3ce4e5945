#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace strata {

// Writes all of `text` to a file descriptor; waits where it does not block. The error is errno's.
absl::Status WriteAll(int fd, const std::string& text);

// A file for results that an option names. What cannot be written is an error that names option,
// file and reason. Any file is taken, a device as well. One thread.
class OutputFile {
 public:
  // Makes the file or empties it: what hinders that is told before the work. InvalidArgument.
  static absl::StatusOr<OutputFile> Create(const std::string& option, const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  // On return others can read it.
  absl::Status Write(const std::string& text);

 private:
  OutputFile(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  int fd_;
  std::string name_;  // for messages
};

}  // namespace strata
