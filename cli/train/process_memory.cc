#include "cli/train/process_memory.h"

#include <fstream>
#include <string>

namespace strata {

absl::StatusOr<int64_t> ReadProportionalBytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == "Pss:" && file >> kib) return kib * 1024;
  }
  return absl::NotFoundError("/proc/self/smaps_rollup has no line Pss");
}

}  // namespace strata
