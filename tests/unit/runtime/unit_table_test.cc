#include "runtime/unit_table.h"

#include <string>
#include <vector>

#include "tests/support/memfd_memory.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

float Value(int parameter, int64_t element) {
  return static_cast<float>(1000000 * parameter + element + 1);
}

class UnitTableTest : public testing::Test {
 protected:
  // Keeps what the table borrows.
  UnitTable& Make(const std::string& layout, Rank self) {
    options_.layout = *ParseLayout(layout, topology_);
    shards_.push_back(std::make_unique<ShardMemory>(memory_));
    tables_.push_back(std::make_unique<UnitTable>(topology_, self, options_, *shards_.back()));
    return *tables_.back();
  }
  static absl::StatusOr<UnitId> Add(UnitTable& table, const UnitSpec& spec) {
    return table.Add(spec, [](int parameter, int64_t first, std::span<float> values) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = Value(parameter, first + static_cast<int64_t>(i));
      }
    });
  }

  MemfdMemory memory_;
  Topology topology_ = Topology::Uniform(2, 3);
  EngineOptions options_;
  std::vector<std::unique_ptr<ShardMemory>> shards_;
  std::vector<std::unique_ptr<UnitTable>> tables_;
};

TEST_F(UnitTableTest, EveryElementIsInitialisedOnceWhereItIsKept) {
  const UnitSpec spec{.name = "u", .parameters = {{"a", 700}, {"b", 1}, {"c", 0}, {"d", 5003}}};
  const UnitShape shape = MakeUnitShape(spec);
  for (const char* layout : {"zero3", "iig", "ddp", "zero1"}) {
    std::vector<int> seen(static_cast<size_t>(shape.elements));
    for (int rank = 0; rank < topology_.size(); ++rank) {
      UnitTable& table = Make(layout, Rank{rank});
      ASSERT_OK(Add(table, spec));
      const Unit& unit = table.units()[0];
      const UnitShards shards = *MakeUnitShards(topology_, options_.layout, shape.elements);
      int64_t packed = 0;
      for (const ElementRange& range : shards.optimizer.Owned(Rank{rank})) {
        for (int64_t e = range.begin; e < range.end; ++e, ++packed) {
          ++seen[static_cast<size_t>(e)];
          float expected = 0;
          for (size_t p = 0; p < spec.parameters.size(); ++p) {
            const int64_t place = e - shape.offsets[p];
            if (place >= 0 && place < spec.parameters[p].elements) {
              expected = Value(static_cast<int>(p), place);
            }
          }
          ASSERT_EQ(unit.master.floats()[packed], expected) << layout << " " << e;
        }
      }
    }
    const int copies = std::string(layout) == "ddp" ? 6 : 1;
    for (int count : seen) ASSERT_EQ(count, copies) << layout;
  }
}

TEST_F(UnitTableTest, GroupsFollowParametersAndMergeWhereEqual) {
  const UnitSpec spec{.name = "u",
                      .parameters = {{"a", 100, 0}, {"b", 100, 0}, {"c", 100, 1}, {"d", 1, 0}}};
  const UnitShape shape = MakeUnitShape(spec);
  const ElementRange all{0, shape.elements};
  const std::vector<OptimizerRange> ranges = MakeOptimizerRanges(spec, shape, {&all, 1});
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].elements, 256);
  EXPECT_EQ(ranges[1].begin, 256);
  EXPECT_EQ(ranges[1].group, 1);
  EXPECT_EQ(ranges[2].begin + ranges[2].elements, shape.elements);
}

TEST_F(UnitTableTest, MistakesAreNamed) {
  UnitTable& table = Make("zero3", Rank{0});
  ASSERT_OK(Add(table, {.name = "u", .parameters = {{"a", 10}}}));
  const auto invalid = [](const char* message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr(message));
  };
  EXPECT_THAT(Add(table, {.name = "u"}), invalid("unit \"u\": the name is used already"));
  EXPECT_THAT(Add(table, {.name = "v", .parameters = {{"a", 10}}}), invalid("parameter \"a\""));
  EXPECT_THAT(Add(table, {.name = "v", .parameters = {{"b", -1}}}), invalid("-1 elements"));
  EXPECT_THAT(Add(table, {.name = "v", .parameters = {{"b", 1, 7}}}), invalid("group 7"));
  EXPECT_OK(Add(table, {.name = "v", .parameters = {{"b", 0}}}));
}

}  // namespace
}  // namespace strata
