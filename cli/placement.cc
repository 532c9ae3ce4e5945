#include "cli/placement.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/status.h"

namespace strata {
namespace {

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<RankPlace> PlaceRanks(const std::vector<int>& ranks_of_node, Placement placement) {
  std::vector<RankPlace> places;
  const auto put = [&places](int node, int local_rank) {
    places.push_back({static_cast<int>(places.size()), node, local_rank});
  };
  const int nodes = static_cast<int>(ranks_of_node.size());
  if (placement == Placement::kBlock) {
    for (int node = 0; node < nodes; ++node) {
      for (int local = 0; local < ranks_of_node[node]; ++local) put(node, local);
    }
    return places;
  }
  const int most = *std::max_element(ranks_of_node.begin(), ranks_of_node.end());
  for (int local = 0; local < most; ++local) {
    for (int node = 0; node < nodes; ++node) {
      if (local < ranks_of_node[node]) put(node, local);
    }
  }
  return places;
}

std::vector<std::string> RankEnvironment(const RankPlace& place,
                                         const std::vector<int>& ranks_of_node,
                                         const JobAddress& address) {
  const int world = std::accumulate(ranks_of_node.begin(), ranks_of_node.end(), 0);
  std::vector<std::string> environment = {
      absl::StrCat("RANK=", place.rank),
      absl::StrCat("WORLD_SIZE=", world),
      absl::StrCat("LOCAL_RANK=", place.local_rank),
      absl::StrCat("LOCAL_WORLD_SIZE=", ranks_of_node[place.node]),
      absl::StrCat("GROUP_RANK=", place.node),
      absl::StrCat("MASTER_ADDR=", address.host),
      absl::StrCat("MASTER_PORT=", address.port),
  };
  if (!address.token.empty()) environment.push_back("STRATA_TOKEN=" + address.token);
  return environment;
}

std::string RandomToken() {
  std::string bytes(16, '\0');
  STRATA_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return absl::BytesToHexString(bytes);
}

absl::StatusOr<std::string> FindProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (IsExecutableFile(program)) return program;
    return absl::NotFoundError(absl::StrCat("\"", program, "\" is not an executable file"));
  }
  const char* path = std::getenv("PATH");
  for (const auto folder : absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string file = absl::StrCat(folder.empty() ? "." : folder, "/", program);
    if (!program.empty() && IsExecutableFile(file)) return file;
  }
  return absl::NotFoundError(absl::StrCat("program \"", program, "\" was not found in PATH"));
}

}  // namespace strata
