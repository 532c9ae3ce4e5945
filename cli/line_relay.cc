#include "cli/line_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/output_file.h"

namespace strata {
namespace {

// A line longer than this is passed on in parts, so that memory stays bounded.
constexpr size_t kLongestLineBytes = 1 << 16;

// Reads of one Pump: a process that writes without end must not keep its caller from signals.
constexpr int kReadsPerPump = 16;

}  // namespace

LineSink LabelledLines(int to, std::string label, absl::Status& status) {
  return [to, label = std::move(label), &status](const std::string& line) {
    const absl::Status written = WriteAll(to, label + line + '\n');
    // The ranks go on without a reader of our output.
    if (!written.ok() && errno != EPIPE) status.Update(written);
  };
}

LineRelay::LineRelay(int pipe, LineSink sink) : pipe_(pipe), sink_(std::move(sink)) {
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
}

LineRelay::~LineRelay() { close(pipe_); }

bool LineRelay::Pump() {
  char buffer[1 << 14];
  for (int reads = 0; reads < kReadsPerPump; ++reads) {
    const ssize_t bytes = read(pipe_, buffer, sizeof(buffer));
    if (bytes > 0) {
      pending_.append(buffer, static_cast<size_t>(bytes));
      PassLines();
    } else if (bytes < 0 && errno == EINTR) {
      continue;
    } else if (bytes < 0 && errno == EAGAIN) {
      return true;
    } else {
      Finish();
      return false;
    }
  }
  return true;
}

void LineRelay::Finish() {
  if (pending_.empty()) return;
  pending_ += '\n';
  PassLines();
}

void LineRelay::PassLines() {
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    sink_(pending_.substr(begin, end - begin));
  }
  pending_.erase(0, begin);
  if (pending_.size() > kLongestLineBytes) sink_(std::exchange(pending_, {}));
}

}  // namespace strata
