#include "runtime/simulated_model.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/runtime.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

const std::vector<int64_t> kElements = {1, 251, 1009};

float Initial(int64_t element) { return static_cast<float>(element % 251) / 251.0f; }

// Nearest, ties to even, of what is neither infinite nor NaN.
float RoundedToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// A model of kElements on one rank, whose SGD at rate 1 moves each parameter by its gradient.
class SimulatedModelTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.world.rendezvous_port = FreePort();
    options.world.token = "test";
    options.world.transport = "tcp";
    options.compute_dtype = options.gradient_dtype = GetParam();
    options.prefetch_bytes = 1 << 20;
    options.optimizer.kind = OptimizerKind::kSgd;
    options.optimizer.groups[0] = {.learning_rate = 1};
    absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Start(options);
    ASSERT_OK(runtime);
    runtime_ = *std::move(runtime);
    model_ = MakeSimulatedModel({.elements = kElements, .compute = GetParam()});
    ASSERT_OK(model_->Declare(*runtime_));
    ASSERT_OK(runtime_->Seal());
  }

  void TearDown() override {
    ASSERT_NE(runtime_, nullptr);
    EXPECT_OK(runtime_->Shutdown());
  }

  float Compute(float value) const {
    return GetParam() == DType::kF32 ? value : RoundedToBf16(value);
  }

  const std::vector<uint8_t> bytes_ = std::vector<uint8_t>(128, 64);  // their mean is a quarter
  const Batch batch_ = {.sequences = 2, .tokens = bytes_, .targets = bytes_};
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<ReferenceModel> model_;
};

TEST_P(SimulatedModelTest, TheGradientIsTheDistanceFromTheMeanByte) {
  ASSERT_OK(model_->MicroStep(batch_));
  ASSERT_OK(runtime_->EndStep({}));
  ASSERT_OK(runtime_->Flush());
  for (size_t u = 0; u < kElements.size(); ++u) {
    const UnitId unit{static_cast<int32_t>(u)};
    const absl::StatusOr<UnitView> view = runtime_->Acquire(unit, Phase::kEval);
    ASSERT_OK(view);
    for (int64_t i = 0; i < kElements[u]; ++i) {
      const float gradient = Compute(Compute(Initial(i)) - 0.25f);
      const float expected = Compute(Initial(i) - gradient);
      float value;
      if (GetParam() == DType::kF32) {
        value = static_cast<const float*>(view->parameters)[i];
      } else {
        const uint32_t bits =
            static_cast<uint32_t>(static_cast<const uint16_t*>(view->parameters)[i]) << 16;
        std::memcpy(&value, &bits, sizeof(value));
      }
      ASSERT_EQ(value, expected) << "unit " << u << " element " << i;
    }
    ASSERT_OK(runtime_->Release(unit));
  }
}

TEST_P(SimulatedModelTest, TheLossIsHalfTheSquaredDistanceOfASampleAndFalls) {
  double expected = 0;
  for (const int64_t elements : kElements) {
    double sum = 0;
    int samples = 0;
    for (int64_t i = 0; i < elements; i += 64, ++samples) {
      const double distance = Compute(Initial(i)) - 0.25f;
      sum += 0.5 * distance * distance;
    }
    expected += sum / samples * static_cast<double>(elements) / 1261;
  }
  const absl::StatusOr<double> evaluated = model_->Evaluate(batch_);
  ASSERT_OK(evaluated);
  EXPECT_DOUBLE_EQ(*evaluated, expected);
  const absl::StatusOr<MicroStepResult> first = model_->MicroStep(batch_);
  ASSERT_OK(first);
  EXPECT_EQ(first->loss, *evaluated);
  ASSERT_OK(runtime_->EndStep({}));
  const absl::StatusOr<MicroStepResult> second = model_->MicroStep(batch_);
  ASSERT_OK(second);
  EXPECT_LT(second->loss, first->loss / 1000);
  ASSERT_OK(runtime_->EndStep({}));
}

INSTANTIATE_TEST_SUITE_P(Types, SimulatedModelTest, testing::Values(DType::kF32, DType::kBf16),
                         [](const testing::TestParamInfo<DType>& info) {
                           return info.param == DType::kF32 ? "f32" : "bf16";
                         });

}  // namespace
}  // namespace strata
