#include "cli/train/process_memory.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace strata {

namespace {

// The bytes of the line "NAME: 123 kB".
absl::StatusOr<int64_t> ReadLine(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == name && file >> kib) return kib * 1024;
  }
  return absl::NotFoundError(absl::StrCat(path, " has no line ", name));
}

}  // namespace

absl::StatusOr<int64_t> ReadProportionalBytes() {
  return ReadLine("/proc/self/smaps_rollup", "Pss:");
}

absl::StatusOr<int64_t> ReadAvailableBytes() { return ReadLine("/proc/meminfo", "MemAvailable:"); }

}  // namespace strata
