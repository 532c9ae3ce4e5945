#include "comm/shm/shm_listener.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "comm/hmac.h"
#include "comm/loop_calls.h"
#include "comm/shm/shm_transport.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr uint64_t kMagic = 0x5354524154413031;  // "STRATA01"

// What the connecting end says first; what the listening end answers; the last word.
struct Hello {
  uint64_t magic = kMagic;
  int32_t from = -1;
  int32_t to = -1;
  Nonce nonce{};
};
struct Answer {
  Nonce nonce{};
  Mac proof{};
};

// Closes its descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

absl::Status Errno(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Abstract: the first byte of the path is zero, the name ends with the address.
socklen_t Fill(absl::string_view name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

// The blocking half of the handshake: this thread waits, never the loop.
class Waiter {
 public:
  Waiter(const Loop& loop, absl::Time deadline) : loop_(loop), deadline_(deadline) {}

  absl::Status Until(int fd, short events) const {
    pollfd entry{fd, events, 0};
    const absl::Duration left = deadline_ - loop_.Now();
    const int milliseconds =
        static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 0, 1 << 30));
    const int ready = poll(&entry, 1, left > absl::ZeroDuration() ? milliseconds : 0);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno == EINTR) return Until(fd, events);
    return absl::DeadlineExceededError("no answer on the socket within the node");
  }

  template <typename T>
  absl::Status Read(int fd, T& value) const {
    auto* at = reinterpret_cast<char*>(&value);
    for (size_t left = sizeof(T); left > 0;) {
      STRATA_RETURN_IF_ERROR(Until(fd, POLLIN));
      const ssize_t got = recv(fd, at, left, MSG_DONTWAIT);
      if (got == 0) return absl::UnavailableError("connection closed");
      if (got < 0 && errno != EAGAIN && errno != EINTR) return Errno("read");
      if (got < 0) continue;
      at += got;
      left -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

  // The few bytes of a handshake always fit an empty socket buffer.
  template <typename T>
  absl::Status Write(int fd, const T& value) const {
    if (send(fd, &value, sizeof(T), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(T))) {
      return absl::OkStatus();
    }
    return Errno("write");
  }

 private:
  const Loop& loop_;
  const absl::Time deadline_;
};

Mac Prove(const ConnectOptions& options, absl::string_view role, const Hello& hello,
          const Nonce& answer) {
  const auto bytes = [](const auto& value) {
    return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  return Hmac(options.token,
              absl::StrCat("shm ", role, " ", options.lane, " ", bytes(hello), bytes(answer)));
}

absl::Status WrongToken() {
  return absl::FailedPreconditionError(
      "has another job token or another lane: set STRATA_TOKEN to one value on all ranks");
}

// True if the process at the other end runs under our user.
bool SameUser(int fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == geteuid();
}

absl::StatusOr<Socket> Dial(const PeerAddress& peer, const Hello& hello, const Waiter& waiter) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return Errno("socket");
  sockaddr_un address;
  const socklen_t length = Fill(peer.address, address);
  if (connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    return Errno("connect");
  }
  if (!SameUser(socket.fd())) {
    return absl::FailedPreconditionError("runs under another user than this rank");
  }
  STRATA_RETURN_IF_ERROR(waiter.Write(socket.fd(), hello));
  return socket;
}

// The connecting end: checks the answer, gives the last word.
absl::Status FinishDial(const ConnectOptions& options, const Hello& hello, int fd,
                        const Waiter& waiter) {
  Answer answer;
  STRATA_RETURN_IF_ERROR(waiter.Read(fd, answer));
  if (!SameMac(answer.proof, Prove(options, "listener", hello, answer.nonce))) return WrongToken();
  return waiter.Write(fd, Prove(options, "connector", hello, answer.nonce));
}

// The listening end; which peer it is.
absl::StatusOr<Rank> Admit(const ConnectOptions& options, int fd, const Waiter& waiter) {
  if (!SameUser(fd)) return absl::FailedPreconditionError("another user");
  Hello hello;
  STRATA_RETURN_IF_ERROR(waiter.Read(fd, hello));
  if (hello.magic != kMagic || hello.to != Index(options.self)) {
    return absl::FailedPreconditionError("not for this rank");
  }
  Answer answer{MakeNonce(), {}};
  answer.proof = Prove(options, "listener", hello, answer.nonce);
  STRATA_RETURN_IF_ERROR(waiter.Write(fd, answer));
  Mac proof{};
  STRATA_RETURN_IF_ERROR(waiter.Read(fd, proof));
  if (!SameMac(proof, Prove(options, "connector", hello, answer.nonce))) return WrongToken();
  return Rank{hello.from};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TransportFactory>> ShmListener::Create(
    AsioLoop& loop, const MemorySegments& segments) {
  const Nonce random = MakeNonce();
  const std::string name = absl::StrCat(
      "strata-",
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(random.data()), 16)));
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return Errno("Unix socket");
  sockaddr_un address;
  const socklen_t length = Fill(name, address);
  if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(socket.fd(), SOMAXCONN) != 0) {
    return Errno(absl::StrCat("Unix socket @", name));
  }
  return absl::WrapUnique<TransportFactory>(
      new ShmListener(loop, segments, socket.Release(), name));
}

ShmListener::~ShmListener() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<Transport>> ShmListener::Connect(const ConnectOptions& options,
                                                                std::vector<PeerAddress> peers) {
  STRATA_CHECK(!loop_.InLoop());
  const Socket listening(std::exchange(fd_, -1));
  if (listening.fd() < 0) return absl::FailedPreconditionError("Connect is called twice");
  const Waiter waiter(loop_, loop_.Now() + options.timeout);

  // Every rank says hello to the higher ones before it waits for anybody, so no two wait for each
  // other; the kernel keeps what a listener has not taken yet.
  std::map<Rank, Socket> sockets;
  std::map<Rank, Hello> hellos;
  for (const PeerAddress& peer : peers) {
    if (peer.rank < options.self) continue;
    const Hello& hello = hellos[peer.rank] =
        Hello{.from = Index(options.self), .to = Index(peer.rank), .nonce = MakeNonce()};
    absl::StatusOr<Socket> socket = Dial(peer, hello, waiter);
    if (!socket.ok()) return Annotate(socket.status(), PeerName(peer));
    sockets[peer.rank] = *std::move(socket);
  }
  const auto absent = [&]() -> const PeerAddress* {
    for (const PeerAddress& peer : peers) {
      if (!sockets.contains(peer.rank)) return &peer;
    }
    return nullptr;
  };
  while (const PeerAddress* next = absent()) {
    const absl::Status ready = waiter.Until(listening.fd(), POLLIN);
    if (!ready.ok()) return Annotate(ready, PeerName(*next));
    Socket socket(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.fd() < 0) continue;
    const absl::StatusOr<Rank> from = Admit(options, socket.fd(), waiter);
    if (from.ok() && *from < options.self) sockets[*from] = std::move(socket);
  }
  std::vector<ShmTransport::Peer> ends;
  for (const PeerAddress& peer : peers) {
    Socket& socket = sockets[peer.rank];
    if (const auto hello = hellos.find(peer.rank); hello != hellos.end()) {
      STRATA_RETURN_IF_ERROR(
          Annotate(FinishDial(options, hello->second, socket.fd(), waiter), PeerName(peer)));
    }
  }
  for (const PeerAddress& peer : peers) {
    ends.push_back({peer.rank, PeerName(peer), sockets[peer.rank].Release()});
  }
  std::unique_ptr<Transport> transport;
  RunInLoop(loop_,
            [&] { transport = std::make_unique<ShmTransport>(loop_, segments_, std::move(ends)); });
  return transport;
}

}  // namespace strata
