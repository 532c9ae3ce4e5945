#include "comm/control/rendezvous.h"

#include <boost/asio/ip/tcp.hpp>
#include <utility>

#include "comm/awaited.h"
#include "comm/control/rendezvous_hub.h"
#include "comm/control/rendezvous_spoke.h"
#include "comm/loop_calls.h"
#include "kernels/status.h"

namespace strata {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// Resolved once; an address is taken as it is.
absl::StatusOr<tcp::endpoint> Resolve(AsioLoop& loop, const RendezvousOptions& options) {
  tcp::resolver resolver(loop.context());
  error_code error;
  const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                      tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return absl::NotFoundError(absl::StrCat("the rendezvous host \"", options.host,
                                            "\" has no address: ", error.message(),
                                            "; set MASTER_ADDR (or STRATA_RENDEZVOUS) to the host "
                                            "of launcher rank 0"));
  }
  return found.begin()->endpoint();
}

absl::StatusOr<tcp::acceptor> Listen(AsioLoop& loop, const RendezvousOptions& options,
                                     const tcp::endpoint& at) {
  tcp::acceptor acceptor(loop.context());
  error_code error;
  acceptor.open(at.protocol(), error);
  // A port that a job of a minute ago has used is free.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  if (!error) return acceptor;
  const std::string where = absl::StrCat(options.host, ":", options.port);
  if (error == boost::asio::error::address_in_use) {
    return absl::FailedPreconditionError(
        absl::StrCat("launcher rank 0 cannot listen on ", where, ": port ", options.port,
                     " is used by another process; set MASTER_PORT (or STRATA_RENDEZVOUS) to a "
                     "free one on all ranks"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("launcher rank 0 cannot listen on ", where, ": ", error.message(),
                   "; set MASTER_ADDR (or STRATA_RENDEZVOUS) to an address of its host"));
}

// Runs a RendezvousHub or RendezvousSpoke to its end.
template <typename Role, typename... Arguments>
absl::StatusOr<Gathering> Play(AsioLoop& loop, Arguments... arguments) {
  Awaited<absl::StatusOr<Gathering>> result;
  std::unique_ptr<Role> role;
  RunInLoop(loop, [&] {
    role = std::make_unique<Role>(
        loop, std::move(arguments)...,
        [&result](absl::StatusOr<Gathering> gathering) { result.Set(std::move(gathering)); });
    role->Start();
  });
  absl::StatusOr<Gathering> gathering = result.Wait();
  RunInLoop(loop, [&role] { role.reset(); });
  return gathering;
}

}  // namespace

absl::StatusOr<Gathering> MeetRanks(AsioLoop& loop, const RendezvousOptions& options) {
  STRATA_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, Resolve(loop, options));
  if (options.self.launcher_rank != 0) {
    return Play<RendezvousSpoke>(loop, options, endpoint);
  }
  STRATA_ASSIGN_OR_RETURN(tcp::acceptor acceptor, Listen(loop, options, endpoint));
  return Play<RendezvousHub>(loop, options, std::move(acceptor));
}

}  // namespace strata
