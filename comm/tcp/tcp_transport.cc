#include "comm/tcp/tcp_transport.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "comm/awaited.h"
#include "comm/loop_calls.h"
#include "comm/tcp/connect_session.h"
#include "comm/wire_tag.h"
#include "kernels/status.h"

namespace strata {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

class TcpTransport final : public Transport {
 public:
  TcpTransport(AsioLoop& loop, const TcpOptions& options) : loop_(loop), options_(options) {}

  ~TcpTransport() override {
    RunInLoop(loop_, [this] {
      for (auto& [peer, connection] : connections_) {
        connection->Drop(absl::AbortedError("the transport is gone"));
      }
      connections_.clear();
    });
  }

  void Add(const PeerAddress& peer, tcp::socket socket) {
    auto connection =
        std::make_shared<TcpConnection>(loop_, std::move(socket), PeerName(peer), options_);
    connection->Start();
    connections_.emplace(peer.rank, std::move(connection));
  }

  void Send(Rank peer, Tag tag, std::span<const std::byte> view, Done done) override {
    if (TcpConnection* connection = Find(peer, tag, view.size(), done)) {
      connection->Send(OnWire(tag), view, std::move(done));
    }
  }

  void Recv(Rank peer, Tag tag, std::span<std::byte> view, Done done) override {
    if (TcpConnection* connection = Find(peer, tag, view.size(), done)) {
      connection->Recv(OnWire(tag), view, std::move(done));
    }
  }

  void Abort(absl::Status why) override {
    STRATA_CHECK(loop_.InLoop() && !why.ok());
    for (auto& [peer, connection] : connections_) connection->Abort(why);
  }

  void Close(Done done) override {
    STRATA_CHECK(loop_.InLoop());
    if (connections_.empty()) return PostDone(loop_, std::move(done), absl::OkStatus());
    const std::function<void()> closed = AfterCalls(connections_.size(), std::move(done));
    for (auto& [peer, connection] : connections_) connection->Close(closed);
  }

  Counters counters() const override {
    STRATA_CHECK(loop_.InLoop());
    Counters sum;
    for (const auto& [peer, connection] : connections_) {
      sum.sent_bytes += connection->counters().sent_bytes;
      sum.received_bytes += connection->counters().received_bytes;
    }
    return sum;
  }

 private:
  // Null, and `done` is told, when the call makes no sense.
  TcpConnection* Find(Rank peer, Tag tag, size_t bytes, Done& done) {
    STRATA_CHECK(loop_.InLoop());
    const auto found = connections_.find(peer);
    absl::Status status = CheckTag(tag);
    if (found == connections_.end()) {
      status = absl::InvalidArgumentError(absl::StrCat("rank ", Index(peer), " is no peer"));
    } else if (static_cast<int64_t>(bytes) > options_.max_message_bytes) {
      status =
          absl::InvalidArgumentError(absl::StrCat("message of ", bytes, " bytes; at most ",
                                                  options_.max_message_bytes, " are sent at once"));
    }
    if (status.ok()) return found->second.get();
    PostDone(loop_, std::move(done), std::move(status));
    return nullptr;
  }

  AsioLoop& loop_;
  const TcpOptions options_;
  std::map<Rank, std::shared_ptr<TcpConnection>> connections_;
};

}  // namespace

TcpListener::TcpListener(AsioLoop& loop, tcp::acceptor acceptor, const TcpOptions& options)
    : loop_(loop), acceptor_(std::move(acceptor)), options_(options) {
  const tcp::endpoint local = acceptor_.local_endpoint();
  address_ = absl::StrCat(local.address().to_string(), ":", local.port());
}

absl::StatusOr<std::unique_ptr<TransportFactory>> TcpListener::Create(AsioLoop& loop,
                                                                      const Interface& interface,
                                                                      const TcpOptions& options) {
  error_code error;
  const auto address = boost::asio::ip::make_address_v4(interface.address, error);
  tcp::acceptor acceptor(loop.context());
  if (!error) acceptor.open(tcp::v4(), error);
  if (!error) acceptor.bind(tcp::endpoint(address, 0), error);
  if (!error) acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("listen on ", interface.address, " (",
                                               interface.name, "): ", error.message()));
  }
  return absl::WrapUnique<TransportFactory>(new TcpListener(loop, std::move(acceptor), options));
}

absl::StatusOr<std::unique_ptr<Transport>> TcpListener::Connect(const ConnectOptions& options,
                                                                std::vector<PeerAddress> peers) {
  STRATA_CHECK(!loop_.InLoop());
  if (!acceptor_.is_open()) return absl::FailedPreconditionError("Connect is called twice");
  Awaited<absl::StatusOr<std::unique_ptr<Transport>>> connected;
  loop_.Post([&] {
    auto session = std::make_shared<ConnectSession>(loop_, acceptor_, options_, options, peers);
    session->Start([&](absl::StatusOr<std::vector<tcp::socket>> sockets) {
      if (!sockets.ok()) {
        // A new one: ThreadSanitizer cannot see how the system's abseil counts references to a
        // status.
        return connected.Set(absl::Status(sockets.status().code(), sockets.status().message()));
      }
      auto transport = std::make_unique<TcpTransport>(loop_, options_);
      for (size_t i = 0; i < peers.size(); ++i) {
        transport->Add(peers[i], std::move((*sockets)[i]));
      }
      connected.Set(std::move(transport));
    });
  });
  return connected.Wait();
}

}  // namespace strata
