#include "runtime/trace.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_format.h"
#include "kernels/status.h"

namespace strata {
namespace {

const char* Name(Trace::Kind kind) {
  switch (kind) {
    case Trace::Kind::kCompute:
      return "compute";
    case Trace::Kind::kAcquire:
      return "wait acquire";
    case Trace::Kind::kEndStep:
      return "wait end step";
    case Trace::Kind::kFlush:
      return "wait flush";
    case Trace::Kind::kGather:
      return "gather";
    case Trace::Kind::kPublish:
      return "publish";
    case Trace::Kind::kReduce:
      return "reduce";
    case Trace::Kind::kBoundary:
      return "boundary reduce";
    case Trace::Kind::kOptimizer:
      return "optimizer";
    case Trace::Kind::kExchange:
      return "exchange";
  }
  return "";
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return escaped;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status FileError(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("trace: cannot write \"", path, "\""));
}

}  // namespace

void Trace::Add(Track track, Kind kind, UnitId unit, absl::Time begin, absl::Time end) {
  if (spans_.capacity() == 0 || end <= begin) return;
  const Span span{track, kind, unit, begin, end};
  if (spans_.size() < spans_.capacity()) {
    spans_.push_back(span);
  } else {
    spans_[next_++ % spans_.size()] = span;
  }
}

absl::Status Trace::Write(const std::string& path, int process,
                          const std::vector<std::string>& unit_names) const {
  // Whole or not at all where it is a file; what else it is, a device or a pipe, is not replaced.
  std::error_code error;
  const auto kind = std::filesystem::symlink_status(path, error).type();
  const bool replaces =
      kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular;
  const std::string partial = replaces ? path + ".partial" : path;
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(partial.c_str(), "w"));
  if (file == nullptr) return FileError(path, errno);
  errno = 0;
  absl::FPrintF(file.get(), "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  absl::FPrintF(
      file.get(),
      "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d\"}}",
      process, process);
  static constexpr const char* kTracks[] = {"application", "gather lane", "reduce lane"};
  for (int track = 0; track < 3; ++track) {
    absl::FPrintF(file.get(),
                  ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\","
                  "\"args\":{\"name\":\"%s\"}}",
                  process, track, kTracks[track]);
  }
  for (const Span& span : spans_) {
    std::string name = Name(span.kind);
    if (span.unit != kNoUnit) name += " " + Escaped(unit_names[Index(span.unit)]);
    absl::FPrintF(
        file.get(),
        ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f}", process,
        static_cast<int>(span.track), name,
        absl::ToDoubleMicroseconds(span.begin - absl::UnixEpoch()),
        absl::ToDoubleMicroseconds(span.end - span.begin));
  }
  absl::FPrintF(file.get(), "\n]}\n");
  const bool written = std::fflush(file.get()) == 0 && std::ferror(file.get()) == 0;
  if (!written || std::fclose(file.release()) != 0) {
    const absl::Status failed = FileError(path, errno != 0 ? errno : EIO);
    if (replaces) std::filesystem::remove(partial, error);
    return failed;
  }
  error.clear();
  if (replaces) std::filesystem::rename(partial, path, error);
  return error ? FileError(path, error.value()) : absl::OkStatus();
}

}  // namespace strata
