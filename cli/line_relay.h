#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace strata {

// Takes one line, without its end.
using LineSink = std::function<void(const std::string& line)>;

// Writes each line to a file descriptor with `label` before it. What the reader does not want
// (EPIPE) is lost; the first other failure is kept in `status`, which outlives the sink.
LineSink LabelledLines(int to, std::string label, absl::Status& status);

// Carries one process's output from a pipe to a sink, whole lines at a time, so that the lines of
// many ranks do not mix. Owns the pipe's reading end.
class LineRelay {
 public:
  LineRelay(int pipe, LineSink sink);
  LineRelay(const LineRelay&) = delete;
  LineRelay& operator=(const LineRelay&) = delete;
  ~LineRelay();

  int pipe() const { return pipe_; }

  // Reads what is there, within bounds, and passes on the lines that are complete. Does not wait
  // for input. Returns false at the end of the input, after passing on what was left.
  bool Pump();

  // Passes on an incomplete last line.
  void Finish();

 private:
  void PassLines();

  int pipe_;
  LineSink sink_;
  std::string pending_;
};

}  // namespace strata
