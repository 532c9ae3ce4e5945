#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/lab/lab.h"
#include "kernels/status.h"

namespace strata {
namespace {

// A port that nobody listens on now.
absl::StatusOr<int> FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = fd >= 0 &&
                     bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!bound) return absl::ErrnoToStatus(error, "find a free port on loopback");
  return ntohs(address.sin_port);
}

}  // namespace

absl::StatusOr<int> RunOnLoopback(const LabOptions& options,
                                  const std::vector<std::string>& program) {
  STRATA_RETURN_IF_ERROR(CheckLab(options, program));
  STRATA_ASSIGN_OR_RETURN(const int port, FreePort());
  const std::vector<int> ranks_of_node(options.nodes, options.ranks_per_node);
  const JobAddress address{"127.0.0.1", port, RandomToken()};
  std::vector<Launch> launches;
  for (const RankPlace& place : PlaceRanks(ranks_of_node, options.placement)) {
    Launch launch;
    launch.rank = place.rank;
    launch.where = absl::StrCat("node", place.node);
    launch.program = program;
    launch.environment = RankEnvironment(place, ranks_of_node, address);
    launch.environment.push_back("STRATA_INTERFACE=lo");
    launch.environment.push_back("STRATA_NODE=" + launch.where);
    launches.push_back(std::move(launch));
  }
  std::fprintf(stderr,
               "strata lab: %d nodes x %d ranks as processes on loopback, links not shaped\n",
               options.nodes, options.ranks_per_node);
  return Supervise(launches, {"lab run", options.label, options.grace});
}

}  // namespace strata
