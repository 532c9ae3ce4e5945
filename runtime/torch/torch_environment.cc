#include "runtime/torch/torch_environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace strata {
namespace {

// The vector instructions that libtorch chose, as its own description says.
std::string CpuCapability() {
  const std::string config = at::show_config();
  constexpr char kKey[] = "CPU capability usage: ";
  const size_t begin = config.find(kKey);
  if (begin == std::string::npos) return "unknown";
  const size_t first = begin + sizeof(kKey) - 1;
  return config.substr(first, config.find('\n', first) - first);
}

}  // namespace

std::string BlasLibrary() {
  void* symbol = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info info;
  if (symbol == nullptr || dladdr(symbol, &info) == 0) return "unknown";
  char* resolved = realpath(info.dli_fname, nullptr);
  const std::string path = resolved == nullptr ? info.dli_fname : resolved;
  std::free(resolved);
  return path;
}

std::map<std::string, std::string> TorchFingerprint() {
  return {
      {"libtorch", TORCH_VERSION},
      {"threads (OMP_NUM_THREADS)", absl::StrCat(at::get_num_threads())},
      {"BLAS", BlasLibrary()},
      {"CPU capability", CpuCapability()},
  };
}

}  // namespace strata
