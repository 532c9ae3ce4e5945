#include <algorithm>
#include <cmath>

#include "cli/bench/measurement.h"
#include "cli/bench/operation.h"
#include "cli/bench/options.h"
#include "cli/bench/pattern.h"
#include "cli/bench/report.h"
#include "gtest/gtest.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/shapes.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr BenchKind kKinds[] = {BenchKind::kAllGather, BenchKind::kReduceScatter,
                                BenchKind::kAllReduce, BenchKind::kBroadcast,
                                BenchKind::kAllToAll,  BenchKind::kSendRecv};

BenchOptions Options(BenchKind kind, DType dtype) {
  BenchOptions options;
  options.kind = kind;
  options.dtype = dtype;
  options.chunk_bytes = 4096;
  return options;
}

TEST(ParseSizes, SweepsAndLists) {
  EXPECT_THAT(*ParseSizes("64KiB..256KiB", 2), ElementsAre(65536, 131072, 262144));
  EXPECT_THAT(*ParseSizes("1KiB..100KiB", 10), ElementsAre(1024, 10240, 102400));
  EXPECT_THAT(*ParseSizes("1KiB..99KiB", 10), ElementsAre(1024, 10240));
  EXPECT_THAT(*ParseSizes("5..5", 2), ElementsAre(5));
  EXPECT_THAT(*ParseSizes("8MiB,1KiB", 2), ElementsAre(8 << 20, 1024));
}

TEST(ParseSizes, RefusesWhatMakesNoSense) {
  for (const char* text : {"", "0", "1KiB,", "2KiB..1KiB", "1KiB..", "a", "1..2..3", "-1"}) {
    EXPECT_EQ(ParseSizes(text, 2).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(ParseSizes("1..2", 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--factor")));
}

TEST(CheckBench, NamesWhatIsWrong) {
  BenchOptions good = Options(BenchKind::kAllGather, DType::kF32);
  good.sizes = {4096};
  EXPECT_OK(CheckBench(good));
  BenchOptions bad = good;
  bad.sizes = {4098};
  EXPECT_THAT(CheckBench(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4098")));
  bad = good;
  bad.min_percent_of_bound = 90;
  EXPECT_THAT(CheckBench(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--rate")));
  bad = good;
  bad.iterations = kMostIterations + 1;
  EXPECT_THAT(CheckBench(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--iterations")));
}

// All ranks of one operation, run in memory.
class Operations : public testing::TestWithParam<ShapeCase> {
 protected:
  void Run(BenchKind kind, DType dtype, int64_t bytes) {
    operations_.clear();
    outputs_.clear();
    std::vector<Bytes> data(topology().size());
    for (int rank = 0; rank < topology().size(); ++rank) {
      auto made = MakeOperation(topology(), Options(kind, dtype), bytes, Rank{rank});
      ASSERT_OK(made);
      operations_.push_back(*std::move(made));
      data[rank].resize(operations_[rank].input_bytes());
      FillInput(operations_[rank], topology(), Rank{rank}, data[rank]);
    }
    for (size_t stage = 0; stage < operations_[0].stages.size(); ++stage) {
      std::vector<Plan> plans;
      for (const Operation& operation : operations_) plans.push_back(*operation.stages[stage]);
      auto outputs = InterpretPlans(plans, data, 3);
      ASSERT_OK(outputs);
      data = *std::move(outputs);
    }
    outputs_ = std::move(data);
  }

  absl::Status Verify(int rank, const Bytes& output) {
    return VerifyOutput(operations_[rank], topology(), Rank{rank}, output);
  }

  const Topology& topology() const { return GetParam().topology; }
  std::vector<Operation> operations_;
  std::vector<Bytes> outputs_;
};

TEST_P(Operations, GiveWhatIsExpected) {
  for (const BenchKind kind : kKinds) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const int64_t bytes : {4, 4096, 12012}) {
        Run(kind, dtype, bytes);
        for (int rank = 0; rank < topology().size(); ++rank) {
          EXPECT_OK(Verify(rank, outputs_[rank])) << Name(kind) << " " << bytes;
        }
      }
    }
  }
}

TEST_P(Operations, OneWrongByteIsSeen) {
  for (const BenchKind kind : kKinds) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      Run(kind, dtype, 12012);
      for (int rank = 0; rank < topology().size(); ++rank) {
        Bytes output = outputs_[rank];
        if (output.empty()) continue;
        const size_t at = output.size() * 2 / 3;
        output[at] ^= std::byte{1};
        EXPECT_THAT(Verify(rank, output),
                    StatusIs(absl::StatusCode::kDataLoss,
                             HasSubstr("1 wrong elements of " +
                                       std::to_string(output.size() / SizeOf(dtype)) +
                                       ", the first at " + std::to_string(at / SizeOf(dtype)))));
      }
    }
  }
}

// Data of two places or two ranks that change places does not pass.
TEST_P(Operations, SwappedDataIsSeen) {
  if (topology().size() < 2) return;
  for (const BenchKind kind : kKinds) {
    Run(kind, DType::kF32, 1 << 15);
    Bytes output = outputs_[1];
    const size_t half = output.size() / 8 * 4;
    std::rotate(output.begin(), output.begin() + half, output.end());
    EXPECT_FALSE(Verify(1, output).ok()) << Name(kind);
  }
  Run(BenchKind::kSendRecv, DType::kF32, 4096);
  if (topology().size() == 2) return;
  EXPECT_FALSE(Verify(1, outputs_[0]).ok());
}

// The closed formula against the plans, where shards are equal.
TEST_P(Operations, FormulaIsWhatPlansMove) {
  const std::vector<int>& sizes = GetParam().sizes;
  if (sizes.empty()) return;
  const int outer = topology().level_count() - 1;
  const int64_t bytes = int64_t{1024} * topology().size() * topology().size();
  for (const BenchKind kind : kKinds) {
    Run(kind, DType::kF32, bytes);
    double most = 0;
    for (const RankSpan& group : topology().Children(outer, 0)) {
      double sent = 0, received = 0;
      for (int rank = group.first; rank < group.first + group.count; ++rank) {
        for (const auto& stage : operations_[rank].stages) {
          sent += static_cast<double>(CountWireBytes(*stage, outer).sent);
          received += static_cast<double>(CountWireBytes(*stage, outer).received);
        }
      }
      most = std::max({most, sent, received});
    }
    if (topology().Children(outer, 0).size() < 2) most = 0;
    EXPECT_NEAR(FormulaBytes(topology(), kind, bytes), most, 1e-6 * most) << Name(kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Operations, testing::ValuesIn(ShapeCases()),
                         [](const auto& info) { return info.param.name; });

// More ranks than bf16 sums have room for: values come from some of them at each place.
TEST(Addends, SumsOfManyRanksAreExactInBf16) {
  const Topology topology = Topology::Uniform(1, 130);
  const BenchOptions options = Options(BenchKind::kReduceScatter, DType::kBf16);
  std::vector<Plan> plans;
  std::vector<Bytes> inputs;
  std::vector<Operation> operations;
  for (int rank = 0; rank < topology.size(); ++rank) {
    operations.push_back(*MakeOperation(topology, options, 2 * 256 * 130, Rank{rank}));
    plans.push_back(*operations.back().stages[0]);
    inputs.emplace_back(operations.back().input_bytes());
    FillInput(operations.back(), topology, Rank{rank}, inputs.back());
  }
  const auto outputs = InterpretPlans(plans, inputs, 1);
  ASSERT_OK(outputs);
  for (int rank = 0; rank < topology.size(); ++rank) {
    EXPECT_OK(VerifyOutput(operations[rank], topology, Rank{rank}, (*outputs)[rank]));
  }
}

Measurement Sample() {
  Measurement m{.kind = BenchKind::kAllReduce, .bytes = 1 << 20};
  m.seconds = {0.004, 0.001, 0.003, 0.002};
  m.wire = {{100, 200}, {300, 50}};
  m.formula_bytes = 1448000;
  m.ranks = 4;
  m.verified = true;
  return m;
}

TEST(Figures, AreAsDefined) {
  const Figures f = FiguresOf(Sample(), 8 * 1514000);
  EXPECT_DOUBLE_EQ(f.min, 0.001);
  EXPECT_DOUBLE_EQ(f.median, 0.0025);
  EXPECT_DOUBLE_EQ(f.p99, 0.004);
  EXPECT_DOUBLE_EQ(f.max, 0.004);
  EXPECT_DOUBLE_EQ(f.algbw, (1 << 20) / 0.0025);
  EXPECT_DOUBLE_EQ(f.busbw, f.algbw * 1.5);
  EXPECT_DOUBLE_EQ(f.bound, 1.0);
  EXPECT_DOUBLE_EQ(f.percent_of_bound, 100 / 0.0025);
  EXPECT_DOUBLE_EQ(f.wire_bytes, 300);
  EXPECT_DOUBLE_EQ(f.interface_bytes, 0);
}

TEST(Figures, WithoutARateThereIsNoBound) {
  const Figures f = FiguresOf(Sample(), 0);
  EXPECT_EQ(f.bound, 0);
  EXPECT_EQ(f.percent_of_bound, 0);
}

TEST(CheckFigures, NamesWhatIsMissed) {
  BenchOptions options = Options(BenchKind::kAllReduce, DType::kF32);
  options.rate = 1000000000;
  const Measurement m = Sample();
  const Figures f = FiguresOf(m, options.rate);
  options.min_percent_of_bound = std::floor(f.percent_of_bound);
  options.min_bandwidth = static_cast<int64_t>(f.busbw * 8);
  EXPECT_OK(CheckFigures(m, f, options));
  ++options.min_bandwidth;
  EXPECT_THAT(CheckFigures(m, f, options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--min-bandwidth")));
  options.min_percent_of_bound += 1;
  EXPECT_THAT(CheckFigures(m, f, options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("1MiB reaches")));
}

TEST(Report, JsonHasTheSamplesAndNullForWhatIsNotKnown) {
  const nlohmann::json json =
      ResultJson(Sample(), Options(BenchKind::kAllReduce, DType::kF32), "x");
  EXPECT_EQ(json["op"], "all_reduce");
  EXPECT_EQ(json["samples_seconds"].size(), 4u);
  EXPECT_TRUE(json["bound_seconds"].is_null());
  EXPECT_TRUE(json["interface_bytes_per_node"].is_null());
  EXPECT_EQ(json["wire_bytes_per_node"], 300);
  EXPECT_EQ(json["nodes"]["wire"][1]["sent"], 300);
}

TEST(Report, CsvRowsHaveAsManyFieldsAsTheHeader) {
  const auto fields = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(fields(CsvHeader()),
            fields(CsvRow(Sample(), Options(BenchKind::kAllReduce, DType::kF32))));
}

}  // namespace
}  // namespace strata
