#include "cli/train/metrics.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using nlohmann::json;

StepReport Report() {
  StepReport report;
  report.step = 7;
  report.loss = 2.5;
  report.tokens = 1024;
  report.norm_before_clip = 3;
  report.norm_after_clip = 1;
  report.levels = {{.name = "node",
                    .sent_bytes = 1,
                    .received_bytes = 2,
                    .node_sent_bytes = 3,
                    .node_received_bytes = 4,
                    .planned_sent_bytes = 5,
                    .planned_received_bytes = 6,
                    .exposed = absl::Milliseconds(500),
                    .overlap = 0.25},
                   {.name = "cluster", .sent_bytes = 11, .exposed = absl::Milliseconds(250)}};
  report.exchange_sent_bytes = 77;
  report.duration = absl::Seconds(2);
  report.compute = absl::Seconds(1);
  report.peak_unit_bytes = 4096;
  report.missed_prefetches = 3;
  return report;
}

const StepMeasure kMeasure = {
    .loss = 0.625, .forward = absl::Milliseconds(250), .backward = absl::Milliseconds(750)};

TEST(MetricsTest, NamesOfALineAreStable) {
  const json line = StepLine(Report(), kMeasure);
  std::set<std::string> names;
  for (const auto& item : line.items()) names.insert(item.key());
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"schema", "step", "loss", "loss_bits", "step_seconds", "compute_seconds",
                          "exposed_wait_seconds", "bytes", "node_bytes", "planned_bytes", "overlap",
                          "grad_norm_before_clip", "grad_norm_after_clip", "peak_unit_bytes"}));
}

TEST(MetricsTest, ALineSaysWhatTheReportSays) {
  const json line = StepLine(Report(), kMeasure);
  EXPECT_EQ(line["schema"], kMetricsSchema);
  EXPECT_EQ(line["step"], 7);
  EXPECT_EQ(line["loss"], 0.625);                    // the mean
  EXPECT_EQ(line["loss_bits"], "4004000000000000");  // of the sum, 2.5
  EXPECT_EQ(line["tokens"], 1024);
  EXPECT_EQ(line["step_seconds"], 2.0);
  EXPECT_EQ(line["compute_seconds"], 1.0);
  EXPECT_EQ(line["forward_seconds"], 0.25);
  EXPECT_EQ(line["backward_seconds"], 0.75);
  EXPECT_EQ(line["exposed_wait_seconds"], (json{{"node", 0.5}, {"cluster", 0.25}}));
  EXPECT_EQ(line["overlap"], (json{{"node", 0.25}, {"cluster", 1.0}}));
  EXPECT_EQ(line["bytes"]["node"], (json{{"sent", 1}, {"received", 2}}));
  EXPECT_EQ(line["node_bytes"]["node"], (json{{"sent", 3}, {"received", 4}}));
  EXPECT_EQ(line["planned_bytes"]["node"], (json{{"sent", 5}, {"received", 6}}));
  EXPECT_EQ(line["bytes"]["cluster"], (json{{"sent", 11}, {"received", 0}}));
  EXPECT_EQ(line["exchange_sent_bytes"], 77);
  EXPECT_EQ(line["grad_norm_before_clip"], 3.0);
  EXPECT_EQ(line["grad_norm_after_clip"], 1.0);
  EXPECT_EQ(line["skipped"], false);
  EXPECT_EQ(line["peak_unit_bytes"], 4096);
  EXPECT_EQ(line["missed_prefetches"], 3);
}

TEST(MetricsTest, LinesAreThereAsSoonAsTheyAreWritten) {
  const std::string path = testing::TempDir() + "metrics_test." + std::to_string(getpid());
  absl::StatusOr<MetricsFile> file = MetricsFile::Create(path);
  ASSERT_OK(file);
  EXPECT_OK(file->Write({{"step", 1}}));
  EXPECT_OK(file->Write({{"text", "two\nlines"}}));
  std::vector<json> lines;
  std::ifstream reader(path);
  for (std::string line; std::getline(reader, line);) lines.push_back(json::parse(line));
  EXPECT_EQ(lines, (std::vector<json>{{{"step", 1}}, {{"text", "two\nlines"}}}));
  std::remove(path.c_str());
}

TEST(MetricsTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THAT(MetricsFile::Create("/nonexistent/metrics.jsonl").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(testing::HasSubstr("/nonexistent/metrics.jsonl"),
                                      testing::HasSubstr("No such file"))));
}

}  // namespace
}  // namespace strata
