#pragma once

#include <string>

namespace strata {

// Carries one process's output from a pipe to a file descriptor, whole lines at a time with a label
// before each, so that the lines of many ranks do not mix. Owns the pipe's reading end.
class LineRelay {
 public:
  LineRelay(int pipe, int to, std::string label);
  LineRelay(const LineRelay&) = delete;
  LineRelay& operator=(const LineRelay&) = delete;
  ~LineRelay();

  int pipe() const { return pipe_; }

  // Reads what is there and writes the lines that are complete. Does not wait for input. Returns
  // false at the end of the input, after writing what was left.
  bool Pump();

  // Writes an incomplete last line.
  void Finish();

 private:
  void WriteLines();

  int pipe_;
  int to_;
  std::string label_;
  std::string pending_;
};

}  // namespace strata
