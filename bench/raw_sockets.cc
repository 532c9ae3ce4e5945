// What plain sockets reach: the bytes and peers of an all-gather or a reduce-scatter between nodes,
// with blocking work on non-blocking sockets, without anything inside the nodes and without sums.
// The baseline beside which `strata bench` is read. One process per rank, in the environment that
// torchrun sets:
//   strata lab run … -- raw_sockets all_gather|reduce_scatter BYTES SECONDS RATE_BITS_PER_SECOND
// Rank 0 prints one line: the operation, bytes, samples, median seconds and percent of the bound.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr double kPayloadShare = 1448.0 / 1514.0;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "raw_sockets: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void Require(bool good, const char* what) {
  if (!good) Die(what);
}

int Number(const char* name) {
  const char* value = std::getenv(name);
  Require(value != nullptr, name);
  return std::atoi(value);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void WriteAll(int fd, const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = write(fd, static_cast<const char*>(data) + done, bytes - done);
    Require(n > 0, "write");
    done += static_cast<size_t>(n);
  }
}

void ReadAll(int fd, void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = read(fd, static_cast<char*>(data) + done, bytes - done);
    Require(n > 0, "read");
    done += static_cast<size_t>(n);
  }
}

int Listen(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  Require(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "bind");
  Require(listen(fd, 1024) == 0, "listen");
  return fd;
}

int Connect(const sockaddr_in& address) {
  for (const double end = Now() + 20; Now() < end; poll(nullptr, 0, 20)) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close(fd);
  }
  Die("connect");
}

struct Job {
  int rank = Number("RANK"), ranks = Number("WORLD_SIZE");
  int local_ranks = Number("LOCAL_WORLD_SIZE");
  int nodes = ranks / local_ranks, node = rank / local_ranks, local = rank % local_ranks;
};

// Every rank's listening address, and a connection to rank 0 (on rank 0: to each other one).
class Meeting {
 public:
  explicit Meeting(const Job& job) : addresses(job.ranks) {
    listener = Listen(0);
    sockaddr_in own{};
    socklen_t size = sizeof(own);
    getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size);
    job.rank == 0 ? Host(job, own.sin_port) : Join(job, own.sin_port);
  }

  int listener = -1;
  std::vector<sockaddr_in> addresses;
  std::vector<int> links;  // rank 0: by rank; others: one

 private:
  struct Hello {
    int32_t rank;
    uint16_t port;
  };

  static sockaddr_in Master() {
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_INET;
    Require(getaddrinfo(std::getenv("MASTER_ADDR"), nullptr, &hints, &found) == 0, "MASTER_ADDR");
    sockaddr_in address = *reinterpret_cast<sockaddr_in*>(found->ai_addr);
    address.sin_port = htons(static_cast<uint16_t>(Number("MASTER_PORT")));
    freeaddrinfo(found);
    return address;
  }

  void Host(const Job& job, uint16_t own_port) {
    addresses[0] = Master();
    addresses[0].sin_port = own_port;
    const int door = Listen(static_cast<uint16_t>(Number("MASTER_PORT")));
    links.assign(job.ranks, -1);
    for (int i = 1; i < job.ranks; ++i) {
      sockaddr_in from{};
      socklen_t size = sizeof(from);
      const int fd = accept(door, reinterpret_cast<sockaddr*>(&from), &size);
      Require(fd >= 0, "accept");
      Hello hello{};
      ReadAll(fd, &hello, sizeof(hello));
      // Ranks of this node come from its address, too.
      from.sin_port = hello.port;
      addresses[hello.rank] = from;
      links[hello.rank] = fd;
    }
    close(door);
    for (int i = 1; i < job.ranks; ++i) {
      WriteAll(links[i], addresses.data(), addresses.size() * sizeof(addresses[0]));
    }
  }

  void Join(const Job& job, uint16_t own_port) {
    links = {Connect(Master())};
    const Hello hello{job.rank, own_port};
    WriteAll(links[0], &hello, sizeof(hello));
    ReadAll(links[0], addresses.data(), addresses.size() * sizeof(addresses[0]));
  }
};

// Connections to the ranks with the same local index on the other nodes.
std::vector<int> ConnectNodes(const Job& job, const Meeting& meeting) {
  std::vector<int> fds(job.nodes, -1);
  for (int node = 0; node < job.node; ++node) {
    fds[node] = Connect(meeting.addresses[node * job.local_ranks + job.local]);
    const int32_t own = job.node;
    WriteAll(fds[node], &own, sizeof(own));
  }
  for (int i = job.node + 1; i < job.nodes; ++i) {
    const int fd = accept(meeting.listener, nullptr, nullptr);
    Require(fd >= 0, "accept");
    int32_t node = 0;
    ReadAll(fd, &node, sizeof(node));
    fds[node] = fd;
  }
  for (const int fd : fds) {
    const int yes = 1;
    if (fd < 0) continue;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return fds;
}

// Sends `send` bytes of `out` to one socket while receiving `receive` bytes into `in` from another.
// What is sent are `own` bytes and then, forwarded, what was received.
void Transfer(int to, int from, const char* out, char* in, size_t own, size_t send,
              size_t receive) {
  size_t sent = 0, received = 0;
  while (sent < send || received < receive) {
    const size_t ready = std::min(send, own + received);
    pollfd fds[] = {{to, static_cast<short>(sent < ready ? POLLOUT : 0), 0},
                    {from, static_cast<short>(received < receive ? POLLIN : 0), 0}};
    Require(poll(fds, 2, 60000) > 0, "poll");
    if ((fds[0].revents & POLLOUT) != 0) {
      const bool is_own = sent < own;
      const char* data = is_own ? out + sent : in + (sent - own);
      const ssize_t n = write(to, data, (is_own ? std::min(own, ready) : ready) - sent);
      Require(n > 0 || errno == EAGAIN, "write");
      if (n > 0) sent += static_cast<size_t>(n);
    }
    if ((fds[1].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t n = read(from, in + received, receive - received);
      Require(n > 0 || (n < 0 && errno == EAGAIN), "read");
      if (n > 0) received += static_cast<size_t>(n);
    }
  }
}

// One operation. `share` bytes of the unit belong to each rank.
void Gather(const Job& job, const std::vector<int>& fds, std::vector<char>& out,
            std::vector<char>& in, size_t share) {
  if (job.nodes < 2) return;
  const int next = (job.node + 1) % job.nodes, before = (job.node + job.nodes - 1) % job.nodes;
  const size_t others = share * (job.nodes - 1);
  Transfer(fds[next], fds[before], out.data(), in.data(), share, others, others);
}

void Reduce(const Job& job, const std::vector<int>& fds, std::vector<char>& out,
            std::vector<char>& in, size_t share) {
  if ((job.nodes & (job.nodes - 1)) == 0) {
    for (int distance = 1; distance < job.nodes; distance *= 2) {
      const int peer = fds[job.node ^ distance];
      const size_t bytes = share * (job.nodes / 2 / distance);
      Transfer(peer, peer, out.data(), in.data(), bytes, bytes, bytes);
    }
    return;
  }
  for (int round = 1; round < job.nodes; ++round) {
    Transfer(fds[(job.node + round) % job.nodes], fds[(job.node + job.nodes - round) % job.nodes],
             out.data(), in.data(), share, share, share);
  }
}

// The mean over the ranks of each number; on rank 0, the others get nothing back.
void Average(const Job& job, const Meeting& meeting, std::vector<double>& numbers) {
  if (job.rank != 0) {
    return WriteAll(meeting.links[0], numbers.data(), numbers.size() * sizeof(double));
  }
  std::vector<double> theirs(numbers.size());
  for (int rank = 1; rank < job.ranks; ++rank) {
    ReadAll(meeting.links[rank], theirs.data(), theirs.size() * sizeof(double));
    for (size_t i = 0; i < theirs.size(); ++i) numbers[i] += theirs[i];
  }
  for (double& number : numbers) number /= job.ranks;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string operation = argc == 5 ? argv[1] : "";
  if (operation != "all_gather" && operation != "reduce_scatter") {
    std::fprintf(
        stderr,
        "usage: raw_sockets all_gather|reduce_scatter BYTES SECONDS RATE_BITS_PER_SECOND\n");
    return 2;
  }
  const auto bytes = static_cast<size_t>(std::atoll(argv[2]));
  const Job job;
  const Meeting meeting(job);
  const std::vector<int> fds = ConnectNodes(job, meeting);
  const size_t share = bytes / job.ranks;
  std::vector<char> out(bytes / job.local_ranks, 1), in(bytes / job.local_ranks, 1);
  const double bound = static_cast<double>(bytes) * (job.nodes - 1) / job.nodes /
                       (std::atof(argv[4]) / 8 * kPayloadShare);
  // As many on all ranks, and three that do not count.
  const int samples = std::max(5, static_cast<int>(std::atof(argv[3]) / bound));
  std::vector<double> seconds;
  double began = Now();
  for (int i = 0; i < samples + 3; ++i) {
    (operation == "all_gather" ? Gather : Reduce)(job, fds, out, in, share);
    const double ended = Now();
    if (i >= 3) seconds.push_back(ended - began);
    began = ended;
  }
  Average(job, meeting, seconds);
  if (job.rank != 0) return 0;
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  std::printf("%s %zu bytes, %d samples, median %.6f s, %.1f %% of the bound\n", operation.c_str(),
              bytes, samples, median, 100 * bound / median);
  return 0;
}
