#include <memory>
#include <vector>

#include "comm/faulty_transport.h"
#include "comm/shaped_transport.h"
#include "comm/sim/sim_network.h"
#include "comm/sim/sim_world.h"
#include "comm/topology.h"
#include "tests/contract/transport_contract.h"

namespace strata {
namespace {

class SimMesh final : public TransportMesh {
 public:
  SimMesh(const Topology& topology, uint64_t seed, int64_t early_bytes = SimNetwork::kUnlimited)
      : world_({.seed = seed, .task_delay = absl::Microseconds(20)}),
        network_(world_, topology,
                 {.message_delay = absl::Microseconds(300), .early_bytes = early_bytes}) {
    for (int rank = 0; rank < topology.size(); ++rank) {
      loops_.push_back(&world_.MakeLoop("rank"));
      transports_.push_back(network_.MakeTransport(Rank{rank}, 0, *loops_.back()));
    }
  }

  Loop& loop(Rank rank) override { return *loops_[Index(rank)]; }
  Transport& transport(Rank rank) override { return *transports_[Index(rank)]; }
  bool WaitUntil(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    return world_.RunUntil(done, world_.Now() + limit);
  }
  void Vanish(Rank rank) override {
    loops_[Index(rank)]->Stop();
    network_.Kill(rank, SimNetwork::Death::kReset);
  }

 private:
  SimWorld world_;
  SimNetwork network_;
  std::vector<SimLoop*> loops_;
  std::vector<std::unique_ptr<SimTransport>> transports_;
};

// Other transports on top of simulated ones.
template <typename Wrapper, typename Options>
class WrappedMesh final : public TransportMesh {
 public:
  WrappedMesh(const Topology& topology, const Options& options) : mesh_(topology, 4) {
    for (int rank = 0; rank < topology.size(); ++rank) {
      wrapped_.push_back(
          std::make_unique<Wrapper>(mesh_.loop(Rank{rank}), mesh_.transport(Rank{rank}), options));
    }
  }

  Loop& loop(Rank rank) override { return mesh_.loop(rank); }
  Transport& transport(Rank rank) override { return *wrapped_[Index(rank)]; }
  bool WaitUntil(absl::FunctionRef<bool()> done, absl::Duration limit) override {
    return mesh_.WaitUntil(done, limit);
  }
  void Vanish(Rank rank) override { mesh_.Vanish(rank); }

 private:
  SimMesh mesh_;
  std::vector<std::unique_ptr<Wrapper>> wrapped_;
};

constexpr Link kSlow{.bytes_per_second = 12'500'000, .latency = absl::Microseconds(100)};
constexpr Link kFast{.bytes_per_second = 4'000'000'000, .latency = absl::Microseconds(2)};

std::unique_ptr<TransportMesh> AcrossNodes(int size) {
  std::vector<int> ones(size, 1);
  auto topology = Topology::Create({{"node", ones, kFast}, {"cluster", {size}, kSlow}});
  return std::make_unique<SimMesh>(*topology, 1);
}

std::unique_ptr<TransportMesh> WithinNode(int size) {
  auto topology = Topology::Create({{"node", {size}, kFast}, {"cluster", {1}, kSlow}});
  return std::make_unique<SimMesh>(*topology, 2);
}

std::unique_ptr<TransportMesh> WithoutRates(int size) {
  return std::make_unique<SimMesh>(Topology::Uniform(1, size), 3);
}

std::unique_ptr<TransportMesh> WithSmallStore(int size) {
  return std::make_unique<SimMesh>(Topology::Uniform(1, size), 5, 4096);
}

std::unique_ptr<TransportMesh> Shaped(int size) {
  return std::make_unique<WrappedMesh<ShapedTransport, Link>>(Topology::Uniform(1, size), kSlow);
}

std::unique_ptr<TransportMesh> Late(int size) {
  return std::make_unique<WrappedMesh<FaultyTransport, FaultyTransport::Options>>(
      Topology::Uniform(1, size), FaultyTransport::Options{.send_delay = absl::Milliseconds(3)});
}

INSTANTIATE_TEST_SUITE_P(SimAcrossNodes, TransportContract, testing::Values(AcrossNodes));
INSTANTIATE_TEST_SUITE_P(SimWithinNode, TransportContract, testing::Values(WithinNode));
INSTANTIATE_TEST_SUITE_P(SimWithoutRates, TransportContract, testing::Values(WithoutRates));
INSTANTIATE_TEST_SUITE_P(SimWithSmallStore, TransportContract, testing::Values(WithSmallStore));
INSTANTIATE_TEST_SUITE_P(Shaped, TransportContract, testing::Values(Shaped));
INSTANTIATE_TEST_SUITE_P(Late, TransportContract, testing::Values(Late));

}  // namespace
}  // namespace strata
