#include "comm/transport_factory.h"

#include "absl/strings/str_cat.h"
#include "comm/tcp/tcp_transport.h"
#ifdef STRATA_HAVE_UCX
#include "comm/ucx/ucx_transport.h"
#endif

namespace strata {

std::string PeerName(const PeerAddress& peer) {
  return absl::StrCat("peer ", Index(peer.rank), " (host ", peer.host, ")");
}

absl::StatusOr<std::unique_ptr<TransportFactory>> MakeTransportFactory(const std::string& transport,
                                                                       AsioLoop& loop,
                                                                       const Interface& interface) {
  if (transport == "tcp") return TcpListener::Create(loop, interface, TcpOptions());
  if (transport == "ucx") {
#ifdef STRATA_HAVE_UCX
    return UcxEndpoint::Create(loop, interface);
#else
    return absl::InvalidArgumentError(
        "transport \"ucx\": this build has no UCX; set network.transport to tcp, or build with "
        "-DSTRATA_UCX=ON");
#endif
  }
  return absl::InvalidArgumentError(
      absl::StrCat("transport \"", transport, "\": there are \"tcp\" and \"ucx\""));
}

}  // namespace strata
