#include "tests/contract/socket_mesh.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/asio_loop.h"
#include "comm/interfaces.h"
#include "comm/transport_factory.h"

namespace strata {
namespace {

class SocketMesh final : public TransportMesh {
 public:
  explicit SocketMesh(int size) : transports_(size) {
    for (int i = 0; i < size; ++i) loops_.push_back(std::make_unique<AsioLoop>("mesh"));
  }

  absl::Status Connect(const std::string& transport) {
    const int size = static_cast<int>(loops_.size());
    auto interface = ResolveInterface("lo", "");
    if (!interface.ok()) return interface.status();
    std::vector<std::unique_ptr<TransportFactory>> factories;
    std::vector<PeerAddress> all;
    for (int i = 0; i < size; ++i) {
      auto factory = MakeTransportFactory(transport, *loops_[i], *interface);
      if (!factory.ok()) return factory.status();
      all.push_back({Rank{i}, (*factory)->address(), absl::StrCat("h", i)});
      factories.push_back(*std::move(factory));
    }
    std::vector<absl::Status> statuses(size);
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) {
      threads.emplace_back([&, i] {
        std::vector<PeerAddress> peers = all;
        peers.erase(peers.begin() + i);
        auto made = factories[i]->Connect(
            {.self = Rank{i}, .lane = "test", .token = "secret", .timeout = absl::Seconds(20)},
            std::move(peers));
        statuses[i] = made.status();
        if (made.ok()) transports_[i] = *std::move(made);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  Loop& loop(Rank rank) override { return *loops_[Index(rank)]; }
  Transport& transport(Rank rank) override { return *transports_[Index(rank)]; }
  bool WaitUntil(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    return WaitInRealTime(done, limit);
  }
  void Vanish(Rank rank) override { transports_[Index(rank)].reset(); }

 private:
  std::vector<std::unique_ptr<AsioLoop>> loops_;
  std::vector<std::unique_ptr<Transport>> transports_;  // end before their loops
};

}  // namespace

std::unique_ptr<TransportMesh> MakeSocketMesh(const std::string& transport, int size) {
  auto mesh = std::make_unique<SocketMesh>(size);
  const absl::Status connected = mesh->Connect(transport);
  EXPECT_TRUE(connected.ok()) << connected;
  if (!connected.ok()) return nullptr;
  return mesh;
}

}  // namespace strata
