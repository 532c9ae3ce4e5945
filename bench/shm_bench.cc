// The transport within a node, two ranks as two threads: bandwidth of one copy out of a shared
// segment, beside memcpy of the same bytes, and the time of a small message there and back.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <thread>

#include "comm/awaited.h"
#include "comm/shm/shm_listener.h"

namespace strata {
namespace {

constexpr int64_t kSegmentBytes = int64_t{64} << 20;

class Pair {
 public:
  Pair() {
    for (Side& side : sides_) {
      side.listener = ShmListener::Create(side.loop, side.segments).value();
      side.memory = side.segments.Allocate(kSegmentBytes).value().bytes;
      std::memset(side.memory.data(), 1, side.memory.size());
    }
    std::thread other([this] { Connect(1); });
    Connect(0);
    other.join();
  }

  // Sends `count` messages of `bytes` from 0 to 1 with a few in flight.
  void Stream(int64_t bytes, int count) {
    Awaited<bool> ended;
    int left = count;
    const auto offset = [bytes](int i) { return (i * bytes) % (kSegmentBytes - bytes + 1); };
    sides_[1].loop.Post([&] {
      for (int i = 0; i < count; ++i) {
        sides_[1].transport->Recv(Rank{0}, {.message = static_cast<uint32_t>(i)},
                                  sides_[1].memory.subspan(offset(i), bytes), [&](absl::Status) {
                                    if (--left == 0) ended.Set(true);
                                  });
      }
    });
    sides_[0].loop.Post([&] {
      for (int i = 0; i < count; ++i) {
        sides_[0].transport->Send(Rank{1}, {.message = static_cast<uint32_t>(i)},
                                  sides_[0].memory.subspan(offset(i), bytes), [](absl::Status) {});
      }
    });
    ended.Wait();
  }

  // One message of `bytes` to 1 and back.
  void PingPong(int64_t bytes) {
    Awaited<bool> ended;
    sides_[1].loop.Post([&] {
      sides_[1].transport->Recv(Rank{0}, {}, sides_[1].memory.first(bytes), [&](absl::Status) {
        sides_[1].transport->Send(Rank{0}, {.operation = 1}, sides_[1].memory.first(bytes),
                                  [](absl::Status) {});
      });
    });
    sides_[0].loop.Post([&] {
      sides_[0].transport->Recv(Rank{1}, {.operation = 1}, sides_[0].memory.first(bytes),
                                [&](absl::Status) { ended.Set(true); });
      sides_[0].transport->Send(Rank{1}, {}, sides_[0].memory.first(bytes), [](absl::Status) {});
    });
    ended.Wait();
  }

  std::byte* memory(int side) { return sides_[side].memory.data(); }

 private:
  struct Side {
    MemorySegments segments;
    AsioLoop loop{"lane"};
    std::unique_ptr<TransportFactory> listener;
    std::unique_ptr<Transport> transport;
    std::span<std::byte> memory;
  };

  void Connect(int self) {
    sides_[self].transport =
        sides_[self]
            .listener
            ->Connect({.self = Rank{self}, .lane = "bench"},
                      {{Rank{1 - self}, sides_[1 - self].listener->address(), "h"}})
            .value();
  }

  Side sides_[2];
};

void StreamSegment(benchmark::State& state) {
  Pair pair;
  const int64_t bytes = state.range(0);
  const int count = static_cast<int>(kSegmentBytes / bytes);
  pair.Stream(bytes, count);
  for (auto _ : state) pair.Stream(bytes, count);
  state.SetBytesProcessed(state.iterations() * count * bytes);
}
BENCHMARK(StreamSegment)->RangeMultiplier(4)->Range(16 << 10, 4 << 20)->UseRealTime();

void Memcpy(benchmark::State& state) {
  Pair pair;
  const int64_t bytes = state.range(0);
  for (auto _ : state) {
    for (int64_t at = 0; at + bytes <= kSegmentBytes; at += bytes) {
      std::memcpy(pair.memory(1) + at, pair.memory(0) + at, bytes);
    }
  }
  state.SetBytesProcessed(state.iterations() * (kSegmentBytes / bytes) * bytes);
}
BENCHMARK(Memcpy)->Arg(256 << 10)->Arg(1 << 20)->UseRealTime();

void PingPong(benchmark::State& state) {
  Pair pair;
  for (auto _ : state) pair.PingPong(state.range(0));
}
BENCHMARK(PingPong)->Arg(64)->Arg(64 << 10)->UseRealTime();

}  // namespace
}  // namespace strata

BENCHMARK_MAIN();
