#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata {

// Which node a launcher puts a rank on: block fills node after node, round-robin deals them out.
enum class Placement { kBlock, kRoundRobin };

struct RankPlace {
  int rank = 0;  // as launchers number them
  int node = 0;
  int local_rank = 0;
};

// One per rank, in rank order. `ranks_of_node` has one count per node, each at least 1.
std::vector<RankPlace> PlaceRanks(const std::vector<int>& ranks_of_node, Placement placement);

// "NAME=value": what torchrun sets for one rank, and STRATA_TOKEN unless `token` is empty.
struct JobAddress {
  std::string host;
  int port = 0;
  std::string token;
};
std::vector<std::string> RankEnvironment(const RankPlace& place,
                                         const std::vector<int>& ranks_of_node,
                                         const JobAddress& address);

// 32 random hexadecimal digits.
std::string RandomToken();

// The file that `program` names, searched in PATH as execvp does. NotFound says what was looked
// for.
absl::StatusOr<std::string> FindProgram(const std::string& program);

}  // namespace strata
