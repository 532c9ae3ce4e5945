#include "cli/train/blas.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"

namespace strata {

bool IsReferenceBlas(const std::string& library) {
  const std::filesystem::path path(library);
  if (!absl::StartsWith(path.filename().string(), "libblas.so")) return false;
  const std::string folder = path.parent_path().filename();
  return std::ranges::none_of(
      std::initializer_list<const char*>{"openblas", "blis", "atlas", "mkl"},
      [&folder](const char* name) { return absl::StrContains(folder, name); });
}

}  // namespace strata
