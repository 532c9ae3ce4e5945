#include "cli/line_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace strata {
namespace {

// A line longer than this is written in parts, so that memory stays bounded.
constexpr size_t kLongestLineBytes = 1 << 16;

// What the reader of our output does not want (EPIPE) is lost; the ranks go on.
void WriteAll(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(fd, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) at += static_cast<size_t>(written);
  }
}

}  // namespace

LineRelay::LineRelay(int pipe, int to, std::string label)
    : pipe_(pipe), to_(to), label_(std::move(label)) {
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
}

LineRelay::~LineRelay() { close(pipe_); }

bool LineRelay::Pump() {
  char buffer[1 << 14];
  for (;;) {
    const ssize_t bytes = read(pipe_, buffer, sizeof(buffer));
    if (bytes > 0) {
      pending_.append(buffer, static_cast<size_t>(bytes));
      WriteLines();
    } else if (bytes < 0 && errno == EINTR) {
      continue;
    } else if (bytes < 0 && errno == EAGAIN) {
      return true;
    } else {
      Finish();
      return false;
    }
  }
}

void LineRelay::Finish() {
  if (pending_.empty()) return;
  pending_ += '\n';
  WriteLines();
}

void LineRelay::WriteLines() {
  std::string text;
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    text += label_;
    text.append(pending_, begin, end + 1 - begin);
  }
  pending_.erase(0, begin);
  if (pending_.size() > kLongestLineBytes) {
    text += label_ + pending_ + '\n';
    pending_.clear();
  }
  WriteAll(to_, text);
}

}  // namespace strata
