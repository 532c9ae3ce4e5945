// Counts what a PlanRunner allocates: nothing, after the first run of a plan. The loop, the stream
// and the transport here allocate nothing themselves once they are warm.
#include <cstring>
#include <memory>
#include <vector>

#include "comm/plan_runner.h"
#include "gtest/gtest.h"
#include "kernels/status.h"
#include "tests/unit/comm/count_allocations.h"

namespace strata {
namespace {

// Tasks in a ring; the test runs them.
class RingLoop final : public Loop {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  void Post(Task task) override {
    STRATA_CHECK(last_ - first_ < kSlots);
    tasks_[last_++ % kSlots] = std::move(task);
  }
  TimerId PostAt(absl::Time, Task task) override {
    timer_ = std::move(task);
    return TimerId{1};
  }
  void Cancel(TimerId) override { timer_ = nullptr; }
  bool InLoop() const override { return true; }

  void RunAll() {
    while (first_ < last_) {
      Task task = std::move(tasks_[first_++ % kSlots]);
      std::move(task)();
    }
  }

 private:
  static constexpr size_t kSlots = 4096;
  std::vector<Task> tasks_{kSlots};
  size_t first_ = 0, last_ = 0;
  Task timer_;
};

class CopyStream final : public Stream {
 public:
  void Launch(const KernelCall& call) override {
    if (const auto* copy = std::get_if<CopyCall>(&call)) {
      std::memcpy(copy->dst, copy->src, static_cast<size_t>(copy->bytes));
    }
  }
  void Notify(Done done) override { pending = std::move(done); }
  Done pending;
};

// Completes sends and receives when told to.
class QueueTransport final : public Transport {
 public:
  QueueTransport() { done_.reserve(4096); }
  void Send(Rank, Tag, std::span<const std::byte>, Done done) override {
    done_.push_back(std::move(done));
  }
  void Recv(Rank, Tag, std::span<std::byte>, Done done) override {
    done_.push_back(std::move(done));
  }
  void Abort(absl::Status) override {}
  void Close(Done) override {}
  Counters counters() const override { return {}; }

  bool EndOne() {
    if (done_.empty()) return false;
    Done done = std::move(done_.back());
    done_.pop_back();
    std::move(done)(absl::OkStatus());
    return true;
  }

 private:
  std::vector<Done> done_;
};

// Receives that are copied and sent on, as a gather does.
std::shared_ptr<const Plan> MakePlan(int chunks) {
  constexpr int64_t kBytes = 512;
  auto plan = std::make_shared<Plan>();
  plan->output_bytes = plan->scratch_bytes = chunks * kBytes;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int recv = static_cast<int>(plan->steps.size());
    const Slice scratch{BufferId::kScratch, chunk * kBytes, kBytes};
    const Slice output{BufferId::kOutput, chunk * kBytes, kBytes};
    const auto after_recv = static_cast<int>(plan->dependencies.size());
    plan->dependencies.push_back(recv);
    plan->steps.push_back({.op = Op::kRecv, .peer = Rank{1}, .message = 0, .dst = scratch});
    plan->steps.push_back({.op = Op::kCopy,
                           .src = scratch,
                           .dst = output,
                           .first_dependency = after_recv,
                           .dependency_count = 1});
    plan->steps.push_back({.op = Op::kSend,
                           .peer = Rank{2},
                           .message = 0,
                           .src = scratch,
                           .first_dependency = after_recv,
                           .dependency_count = 1});
  }
  return plan;
}

TEST(PlanRunnerAllocationTest, NothingAfterTheFirstRunOfAPlan) {
  RingLoop loop;
  CopyStream stream;
  QueueTransport transport;
  PlanRunner runner(loop, stream, {&transport}, {.credit_bytes = {4096}});
  const std::vector<std::shared_ptr<const Plan>> plans = {MakePlan(100), MakePlan(7)};
  std::vector<std::byte> output(100 * 512), scratch(100 * 512);
  std::byte* output_page = output.data();
  std::byte* scratch_page = scratch.data();
  const PlanBuffers buffers{.output = {.pages = {&output_page, 1}, .page_bytes = 100 * 512},
                            .scratch = {.pages = {&scratch_page, 1}, .page_bytes = 100 * 512}};
  int ended = 0;
  const auto run_two_at_once = [&] {
    for (const auto& plan : plans) {
      RunOptions options{.deadline = absl::UnixEpoch() + absl::Seconds(1)};
      runner.Run(plan, buffers, std::move(options), [&ended](absl::Status status) {
        STRATA_CHECK(status.ok());
        ++ended;
      });
    }
    while (transport.EndOne() || stream.pending != nullptr) {
      if (stream.pending != nullptr) {
        Done done = std::move(stream.pending);
        std::move(done)(absl::OkStatus());
      }
      loop.RunAll();
    }
  };
  run_two_at_once();
  ASSERT_EQ(ended, 2);
  const int64_t before = Allocations();
  for (int repeat = 0; repeat < 10; ++repeat) run_two_at_once();
  EXPECT_EQ(Allocations() - before, 0);
  EXPECT_EQ(ended, 22);
  EXPECT_GT(before, 0) << "the counter is not in place";
}

}  // namespace
}  // namespace strata
