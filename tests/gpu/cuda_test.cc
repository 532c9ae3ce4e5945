#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/host_stream.h"
#include "kernels/norm.h"
#include "tests/support/gate.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/kernels/kernel_test_support.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(60);
constexpr int64_t kLengths[] = {0, 1, 7, 255, 256, 257, 1000003};
constexpr int kNoDevice = 1 << 20;

// Runs posted tasks where they are posted: on the stream's thread.
void PostAtOnce(Task task) { std::move(task)(); }

absl::Status Reached(Stream& stream) {
  Gate gate;
  absl::Status result;
  stream.Notify([&](absl::Status status) {
    result = std::move(status);
    gate.Open();
  });
  if (!gate.WaitFor(kSoon)) return absl::DeadlineExceededError("the stream was not reached");
  return result;
}

// Random values with every edge and a NaN every now and then, at places that depend on `seed`.
std::vector<float> Floats(int64_t elements, uint32_t seed) {
  std::vector<float> values = RandomFloats(elements, seed);
  for (int64_t i = 0; i < elements; ++i) {
    if ((i + seed) % 3 == 0) values[i] = kEdges[(i / 3 + seed * i) % std::size(kEdges)];
    if (i % 41 == seed) values[i] = std::bit_cast<float>(0xff812345u + seed);
  }
  return values;
}

std::vector<uint16_t> Halves(int64_t elements, uint32_t seed) {
  std::vector<uint16_t> halves;
  for (const float value : Floats(elements, seed)) {
    halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  }
  return halves;
}

// The first difference between two runs of memory, as bits: also which NaN is told apart.
template <typename T>
void ExpectSameMemory(const std::vector<T>& actual, const std::vector<T>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) == 0) continue;
    FAIL() << "element " << i << " of " << actual.size() << " is " << actual[i] << ", not "
           << expected[i];
  }
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Open(0);
    if (!device.ok()) GTEST_SKIP() << device.status();
    device_ = *std::move(device);
    stream_ = device_->MakeStream(PostAtOnce);
  }

  // A copy of `values` on the device, for the rest of the test.
  template <typename T>
  T* ToDevice(const std::vector<T>& values) {
    auto memory = device_->Allocate(static_cast<int64_t>(values.size() * sizeof(T)) + 1);
    if (!memory.ok()) ADD_FAILURE() << memory.status();
    memory_.push_back(*std::move(memory));
    void* const data = memory_.back()->bytes().data();
    stream_->Launch(CopyCall{data, values.data(), static_cast<int64_t>(values.size() * sizeof(T))});
    EXPECT_OK(Reached(*stream_));
    return static_cast<T*>(data);
  }

  template <typename T>
  std::vector<T> FromDevice(const T* data, int64_t elements) {
    std::vector<T> values(elements);
    stream_->Launch(CopyCall{values.data(), data, static_cast<int64_t>(elements * sizeof(T))});
    EXPECT_OK(Reached(*stream_));
    return values;
  }

  // Launches call(dst, a, b) on the host and on the device and compares what is in dst then.
  template <typename To, typename A, typename B, typename Call>
  void Compare(const std::vector<To>& dst, const std::vector<A>& a, const std::vector<B>& b,
               Call call) {
    SCOPED_TRACE(dst.size());
    std::vector<To> expected = dst;
    host_.Launch(call(expected.data(), a.data(), b.data()));
    To* const actual = ToDevice(dst);
    stream_->Launch(call(actual, ToDevice(a), ToDevice(b)));
    ExpectSameMemory(FromDevice(actual, static_cast<int64_t>(dst.size())), expected);
  }

  HostStream host_{PostAtOnce};
  std::unique_ptr<CudaDevice> device_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(Cuda, ElementwiseCallsOnF32EqualTheHost) {
  for (const int64_t n : kLengths) {
    const std::vector<float> dst = Floats(n, 1), a = Floats(n, 2), b = Floats(n, 3);
    Compare(dst, a, b, [n](float* d, const float* x, const float*) {
      return CopyCall{d, x, 4 * n};
    });
    Compare(dst, a, b, [n](float* d, const float* x, const float* y) {
      return AddCall{DType::kF32, d, x, y, n};
    });
    Compare(dst, a, b, [n](float* d, const float* x, const float*) {
      return ConvertCall{DType::kF32, d, DType::kF32, x, n};
    });
    for (const auto mode : {Accumulation::kSet, Accumulation::kAdd}) {
      Compare(dst, a, b, [n, mode](float* d, const float* x, const float*) {
        return AccumulateCall{mode, d, DType::kF32, x, n};
      });
    }
    for (const float factor : {0.7f, 0.0f, -1e-45f, INFINITY}) {
      Compare(dst, a, b, [n, factor](float* d, const float*, const float*) {
        return ScaleCall{d, factor, n};
      });
    }
  }
}

TEST_F(Cuda, ElementwiseCallsOnBf16EqualTheHost) {
  for (const int64_t n : kLengths) {
    const std::vector<float> wide = Floats(n, 1);
    const std::vector<uint16_t> narrow = Halves(n, 2), other = Halves(n, 3);
    Compare(narrow, narrow, other, [n](uint16_t* d, const uint16_t* x, const uint16_t* y) {
      return AddCall{DType::kBf16, d, x, y, n};
    });
    Compare(narrow, other, other, [n](uint16_t* d, const uint16_t* x, const uint16_t*) {
      return ConvertCall{DType::kBf16, d, DType::kBf16, x, n};
    });
    Compare(narrow, wide, other, [n](uint16_t* d, const float* x, const uint16_t*) {
      return ConvertCall{DType::kBf16, d, DType::kF32, x, n};
    });
    Compare(wide, narrow, other, [n](float* d, const uint16_t* x, const uint16_t*) {
      return ConvertCall{DType::kF32, d, DType::kBf16, x, n};
    });
    for (const auto mode : {Accumulation::kSet, Accumulation::kAdd}) {
      Compare(wide, narrow, other, [n, mode](float* d, const uint16_t* x, const uint16_t*) {
        return AccumulateCall{mode, d, DType::kBf16, x, n};
      });
    }
  }
}

TEST_F(Cuda, SumsOfSquaresEqualTheHost) {
  for (const int64_t n : {0, 1, 7, 255, 256, 257, 1000003, 9000011}) {
    SCOPED_TRACE(n);
    for (const bool finite : {true, false}) {
      const std::vector<float> values = finite ? RandomFloats(n, 5) : Floats(n, 5);
      NormSum expected, actual;
      host_.Launch(SumSquaresCall{&expected, values.data(), n});
      stream_->Launch(SumSquaresCall{&actual, ToDevice(values), n});
      ASSERT_OK(Reached(*stream_));
      EXPECT_EQ(actual, expected);
    }
    memory_.clear();
  }
}

TEST_F(Cuda, MoreSumsThanSlotsAreAllAdded) {
  const std::vector<float> values = RandomFloats(257, 6);
  const float* const data = ToDevice(values);
  NormSum expected, actual;
  for (int i = 0; i < 100; ++i) {
    host_.Launch(SumSquaresCall{&expected, values.data(), 257});
    stream_->Launch(SumSquaresCall{&actual, data, 257});
  }
  ASSERT_OK(Reached(*stream_));
  EXPECT_EQ(actual, expected);
}

TEST_F(Cuda, OptimizersEqualTheHost) {
  for (const int64_t n : kLengths) {
    SCOPED_TRACE(n);
    const std::vector<float> gradient = Floats(n, 1);
    std::vector<float> parameters = RandomFloats(n, 2), first(n), second(n), momentum(n);
    float* const device_parameters = ToDevice(parameters);
    float* const device_first = ToDevice(first);
    float* const device_second = ToDevice(second);
    float* const device_momentum = ToDevice(momentum);
    const float* const device_gradient = ToDevice(gradient);
    for (const double t : {1, 2}) {
      AdamWCall adamw = {.parameters = parameters.data(),
                         .first_moment = first.data(),
                         .second_moment = second.data(),
                         .gradient = gradient.data(),
                         .elements = n,
                         .clip = 0.7f,
                         .learning_rate = 3e-4f,
                         .beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .epsilon = 1e-8f,
                         .weight_decay = 0.1f,
                         .beta1_power = std::pow(0.9, t),
                         .beta2_power = std::pow(0.95, t)};
      host_.Launch(adamw);
      adamw.parameters = device_parameters;
      adamw.first_moment = device_first;
      adamw.second_moment = device_second;
      adamw.gradient = device_gradient;
      stream_->Launch(adamw);
    }
    for (const float momentum_factor : {0.9f, 0.0f}) {
      for (const float weight_decay : {0.1f, 0.0f}) {
        const bool keeps = momentum_factor != 0;
        SgdCall sgd = {.parameters = parameters.data(),
                       .momentum = keeps ? momentum.data() : nullptr,
                       .gradient = gradient.data(),
                       .elements = n,
                       .clip = 0.7f,
                       .learning_rate = 0.1f,
                       .momentum_factor = momentum_factor,
                       .weight_decay = weight_decay};
        host_.Launch(sgd);
        sgd.parameters = device_parameters;
        sgd.momentum = keeps ? device_momentum : nullptr;
        sgd.gradient = device_gradient;
        stream_->Launch(sgd);
      }
    }
    ExpectSameMemory(FromDevice(device_parameters, n), parameters);
    ExpectSameMemory(FromDevice(device_first, n), first);
    ExpectSameMemory(FromDevice(device_second, n), second);
    ExpectSameMemory(FromDevice(device_momentum, n), momentum);
  }
}

TEST_F(Cuda, NotifiesInOrderAndBehindWhatWasLaunched) {
  const std::vector<float> ones(1000003, 1);
  float* const data = ToDevice(ones);
  std::vector<float> copies[3];
  std::mutex mutex;
  std::vector<std::string> events;
  for (int i = 0; i < 3; ++i) {
    copies[i].resize(ones.size());
    stream_->Launch(ScaleCall{data, 2, 1000003});
    stream_->Launch(CopyCall{copies[i].data(), data, 4 * 1000003});
    stream_->Notify([&, i](const absl::Status& status) {
      const std::lock_guard lock(mutex);
      events.push_back(absl::StrCat(i, " ", status.ToString(), " ", copies[i].back()));
    });
  }
  ASSERT_OK(Reached(*stream_));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(events, (std::vector<std::string>{"0 OK 2", "1 OK 4", "2 OK 8"}));
}

TEST_F(Cuda, MemoryIsZeroedAndCanNotBeHadWithoutEnd) {
  auto memory = device_->Allocate(1000003);
  ASSERT_OK(memory);
  ASSERT_EQ((*memory)->bytes().size(), 1000003u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->bytes().data()) % 256, 0u);
  EXPECT_EQ(FromDevice((*memory)->bytes().data(), 1000003), std::vector<std::byte>(1000003));
  EXPECT_THAT(device_->Allocate(int64_t{1} << 50),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1125899906842624")));
  EXPECT_THAT(device_->Allocate(0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 bytes")));
}

// These need no device: there is none of this number.

TEST(CudaWithoutDevice, OpenSaysWhy) {
  EXPECT_THAT(CudaDevice::Open(kNoDevice),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("CUDA device 1048576")));
}

TEST(CudaWithoutDevice, EveryNotifyReportsTheFirstErrorInOrder) {
  std::vector<std::string> events;
  NormSum sum;
  float value = 1;
  {
    CudaStream stream(kNoDevice, PostAtOnce);
    for (int i = 0; i < 3; ++i) {
      stream.Launch(ScaleCall{&value, 2, 1});
      stream.Launch(SumSquaresCall{&sum, &value, 1});
      stream.Notify([&events, i](const absl::Status& status) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("CUDA device 1048576: make a stream: ")));
        events.push_back(absl::StrCat(i));
      });
    }
  }
  EXPECT_EQ(events, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(value, 1);
  EXPECT_EQ(sum, NormSum());
}

}  // namespace
}  // namespace strata
