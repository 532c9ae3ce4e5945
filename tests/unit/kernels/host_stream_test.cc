#include "kernels/host_stream.h"

#include <deque>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device.h"
#include "kernels/norm.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::HasSubstr;

// A loop that runs posted tasks when told to.
class Queue {
 public:
  PostFunction post() {
    return [this](Task task) { tasks_.push_back(std::move(task)); };
  }
  void RunAll() {
    while (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      std::move(task)();
    }
  }

 private:
  std::deque<Task> tasks_;
};

TEST(HostStream, RunsEveryKindOfCallAtOnceAndInOrder) {
  Queue queue;
  HostStream stream(queue.post());
  std::vector<float> a = {1, 2, 3}, b(3), parameters = {4, 4, 4}, first(3), second(3), momentum(3);
  std::vector<uint16_t> halves(3);
  NormSum sum;
  stream.Launch(CopyCall{b.data(), a.data(), 12});
  stream.Launch(AddCall{DType::kF32, b.data(), b.data(), a.data(), 3});
  stream.Launch(ScaleCall{b.data(), 2, 3});
  stream.Launch(AccumulateCall{Accumulation::kAdd, b.data(), DType::kF32, a.data(), 3});
  EXPECT_EQ(b, (std::vector<float>{5, 10, 15}));
  stream.Launch(ConvertCall{DType::kBf16, halves.data(), DType::kF32, b.data(), 3});
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x40a0, 0x4120, 0x4170}));
  stream.Launch(SumSquaresCall{&sum, b.data(), 3});
  EXPECT_EQ(sum.Value(), 350);
  stream.Launch(SgdCall{.parameters = parameters.data(),
                        .momentum = momentum.data(),
                        .gradient = b.data(),
                        .elements = 3,
                        .learning_rate = 1,
                        .momentum_factor = 0.5f});
  EXPECT_EQ(parameters, (std::vector<float>{-1, -6, -11}));
  stream.Launch(AdamWCall{.parameters = parameters.data(),
                          .first_moment = first.data(),
                          .second_moment = second.data(),
                          .gradient = b.data(),
                          .elements = 3,
                          .learning_rate = 1,
                          .beta1 = 0.5f,
                          .beta2 = 0.5f,
                          .beta1_power = 0.5,
                          .beta2_power = 0.5});
  EXPECT_EQ(first, (std::vector<float>{2.5, 5, 7.5}));
}

TEST(HostStream, NotifyReportsOnceAndOnTheLoopOnly) {
  Queue queue;
  HostStream stream(queue.post());
  std::vector<std::string> events;
  stream.Notify([&](absl::Status status) { events.push_back("first " + status.ToString()); });
  stream.Notify([&](absl::Status status) { events.push_back("second " + status.ToString()); });
  EXPECT_TRUE(events.empty());
  queue.RunAll();
  EXPECT_EQ(events, (std::vector<std::string>{"first OK", "second OK"}));
}

TEST(HostDevice, MakesStreamsAndZeroedMemory) {
  Queue queue;
  HostDevice device;
  const auto stream = device.MakeStream(queue.post());
  auto memory = device.Allocate(1000003);
  ASSERT_OK(memory);
  const std::span<std::byte> bytes = (*memory)->bytes();
  ASSERT_EQ(bytes.size(), 1000003u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4096, 0u);
  for (std::byte byte : bytes) ASSERT_EQ(byte, std::byte{0});
  const std::vector<std::byte> ones(1000003, std::byte{1});
  stream->Launch(CopyCall{bytes.data(), ones.data(), 1000003});
  EXPECT_EQ(bytes[1000002], std::byte{1});
}

TEST(HostDevice, SaysWhatItCanNotAllocate) {
  HostDevice device;
  EXPECT_THAT(device.Allocate(int64_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1152921504606846976")));
  EXPECT_THAT(device.Allocate(0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 bytes")));
}

}  // namespace
}  // namespace strata
