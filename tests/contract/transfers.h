#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "tests/contract/transport_contract.h"

namespace strata {

// After which a wait has failed.
inline constexpr absl::Duration kLimit = absl::Seconds(20);

// What became of one operation. Outlives the mesh's loops through shared ownership.
class Outcome {
 public:
  // Called on `loop`.
  void Set(absl::Status status, bool in_loop, bool in_call) {
    const std::lock_guard lock(mutex_);
    ++times_;
    status_ = std::move(status);
    right_place_ = in_loop && !in_call;
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return times_ > 0;
  }
  // Exactly once, on the loop, outside the call that took the operation.
  bool proper() const {
    const std::lock_guard lock(mutex_);
    return times_ == 1 && right_place_;
  }
  absl::Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  int times_ = 0;
  bool right_place_ = false;
  absl::Status status_;
};

enum class Kind { kSend, kRecv };

// A send or receive of the bytes it owns.
struct Operation {
  std::vector<std::byte> bytes;
  std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
};

inline std::vector<std::byte> Pattern(size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  uint32_t state = 2654435761u * (seed + 1);
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

inline Tag TagOf(uint32_t operation, uint32_t message, uint32_t order = 0) {
  return {.operation = operation, .message = message, .order = order};
}

// Starts operations from the test thread. The mesh ends first: buffers are lent to it.
class Transfers {
 public:
  explicit Transfers(std::unique_ptr<TransportMesh>& mesh) : mesh_(mesh) {}
  ~Transfers() { mesh_.reset(); }

  Operation& Send(int from, int to, Tag tag, std::vector<std::byte> bytes) {
    return Start(Kind::kSend, from, to, tag, std::move(bytes));
  }
  Operation& Recv(int at, int from, Tag tag, size_t size) {
    return Start(Kind::kRecv, at, from, tag, std::vector<std::byte>(size));
  }

  void OnLoop(int rank, absl::AnyInvocable<void(Transport&) &&> action) {
    mesh_->loop(Rank{rank}).Post([this, rank, action = std::move(action)]() mutable {
      std::move(action)(mesh_->transport(Rank{rank}));
    });
  }

  // Waits until everything posted to `rank` so far has been taken.
  void Settle(int rank) {
    auto reached = std::make_shared<Outcome>();
    mesh_->loop(Rank{rank}).Post([reached] { reached->Set(absl::OkStatus(), true, false); });
    ASSERT_TRUE(mesh_->WaitUntil([&] { return reached->ended(); }, kLimit));
  }

  // Waits for the end of all operations, `except` excepted.
  void WaitAll(const Operation* except = nullptr) {
    ASSERT_TRUE(mesh_->WaitUntil(
        [this, except] {
          for (const auto& operation : operations_) {
            if (operation.get() != except && !operation->outcome->ended()) return false;
          }
          return true;
        },
        kLimit));
    for (const auto& operation : operations_) {
      if (operation.get() == except) continue;
      EXPECT_TRUE(operation->outcome->proper());
    }
  }

 private:
  Operation& Start(Kind kind, int self, int peer, Tag tag, std::vector<std::byte> bytes) {
    operations_.push_back(std::make_unique<Operation>());
    Operation& operation = *operations_.back();
    operation.bytes = std::move(bytes);
    OnLoop(self, [this, kind, self, peer, tag, &operation](Transport& transport) {
      auto in_call = std::make_shared<bool>(true);
      Done done = [outcome = operation.outcome, loop = &mesh_->loop(Rank{self}),
                   in_call](absl::Status status) {
        outcome->Set(std::move(status), loop->InLoop(), *in_call);
      };
      if (kind == Kind::kSend) {
        transport.Send(Rank{peer}, tag, operation.bytes, std::move(done));
      } else {
        transport.Recv(Rank{peer}, tag, operation.bytes, std::move(done));
      }
      *in_call = false;
    });
    return operation;
  }

  std::unique_ptr<TransportMesh>& mesh_;
  std::vector<std::unique_ptr<Operation>> operations_;
};

}  // namespace strata
