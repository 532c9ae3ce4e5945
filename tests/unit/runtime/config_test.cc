#include "runtime/config/config.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/layout.h"
#include "gtest/gtest.h"
#include "runtime/config/key_table.h"
#include "runtime/config/key_value.h"
#include "runtime/config/model_size.h"
#include "runtime/config/quantity.h"
#include "runtime/config/regular_file.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kFile[] = R"(
model:    {kind: gpt, layers: 3, width: 96, heads: 6, context: 64}
data:     {text: corpus.txt}
train:
  steps: 17
  micro_batch: 2
  accumulation: 5
  seed: 7
  optimizer: adamw
  learning_rate: 1e-3
  warmup: 3
  schedule: cosine
  weight_decay: 0.1
  clip: 1.0
  eval_every: 5
compute:  {dtype: bf16, gradient_dtype: f32, device: host}
layout:   iig
prefetch: {bytes: 3MiB}
reduction: canonical
network:  {transport: tcp, interface: e0, rate: 100mbit, timeout: 1m30s}
)";

// The configuration, or a test failure and the default one.
Config MustParse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto config = Config::Parse(text, "a.yaml", overrides);
  EXPECT_OK(config);
  return config.ok() ? *std::move(config) : *Config::Parse("data: {text: t}", "default");
}

std::vector<std::string> Problems(const std::string& text,
                                  const std::vector<std::string>& overrides = {}) {
  const auto config = Config::Parse(text, "a.yaml", overrides);
  if (config.ok()) return {};
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return absl::StrSplit(config.status().message(), ";\n");
}

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream.is_open()) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(ConfigTest, ReadsEveryKindOfValue) {
  const TrainConfig config = MustParse(kFile).values();
  EXPECT_EQ(config.model.kind, ModelKind::kGpt);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.width, 96);
  EXPECT_EQ(config.data.text, "corpus.txt");
  EXPECT_EQ(config.train.steps, 17);
  EXPECT_EQ(config.train.learning_rate, 1e-3);
  EXPECT_EQ(config.train.schedule, Schedule::kCosine);
  EXPECT_EQ(config.compute.dtype, DType::kBf16);
  EXPECT_EQ(config.compute.gradient_dtype, DType::kF32);
  EXPECT_EQ(config.layout, "iig");
  EXPECT_EQ(config.prefetch.bytes, 3 << 20);
  EXPECT_EQ(config.network.rate, 12500000);
  EXPECT_EQ(config.network.timeout, absl::Seconds(90));
}

TEST(ConfigTest, DefaultsAreThoseOfTheTable) {
  const TrainConfig config = MustParse("data: {text: t}").values();
  EXPECT_EQ(config.train.steps, 200);
  EXPECT_EQ(config.train.optimizer, OptimizerKind::kAdamW);
  EXPECT_EQ(config.train.epsilon, 1e-8);
  EXPECT_EQ(config.layout, "zero3");
  EXPECT_EQ(config.prefetch.bytes, 64 << 20);
  EXPECT_EQ(config.network.rate, 0);
  EXPECT_EQ(config.network.interface, "");
  EXPECT_EQ(config.network.timeout, absl::Seconds(30));
}

TEST(ConfigTest, GradientTypeFollowsTheComputeType) {
  EXPECT_EQ(MustParse("data: {text: t}").values().compute.gradient_dtype, DType::kF32);
  EXPECT_EQ(MustParse("{data: {text: t}, compute: {dtype: bf16}}").values().compute.gradient_dtype,
            DType::kBf16);
}

TEST(ConfigTest, EmptySectionsAndFilesAreFine) {
  EXPECT_THAT(Problems("train:\ndata: {text: t}\n"), IsEmpty());
  EXPECT_THAT(Problems("", {"data.text=t"}), IsEmpty());
}

TEST(ConfigTest, OverridesWinAndFollowTheSameRules) {
  const TrainConfig config =
      MustParse(kFile, {"train.steps=23", "layout=hsdp", "train.steps=29", "prefetch.bytes=1.5GiB"})
          .values();
  EXPECT_EQ(config.train.steps, 29);
  EXPECT_EQ(config.layout, "hsdp");
  EXPECT_EQ(config.prefetch.bytes, 3 << 29);
  EXPECT_THAT(
      Problems(kFile, {"train.stops=3", "train.steps=0", "steps", "=3", "train=3"}),
      ElementsAre("--set: train.stops: there is no such key; the nearest is train.steps",
                  "--set: steps: not of the form key=value, such as train.steps=5",
                  "--set: =3: not of the form key=value, such as train.steps=5",
                  HasSubstr("--set: train: is a group of keys, not a value; its keys: steps"),
                  HasSubstr("--set: train.steps: \"0\" is not an integer from 1")));
}

TEST(ConfigTest, EveryProblemAtOnceWithItsLine) {
  EXPECT_THAT(
      Problems("model: {layers: many, width: 10, heads: 3}\n"
               "steps: 3\n"
               "train:\n"
               "  accumulation: 0\n"
               "  schedule: cosin\n"
               "  beta1: 1\n"
               "  learning_rate: nan\n"
               "  momentum: 0.9\n"
               "  seed: [1]\n"
               "compute: bf16\n"
               "layout: igi\n"
               "prefetch: {bytes: 64MB}\n"
               "network: {rate: 100MB, timeout: 30, transport:}\n"
               "cache: {level: node}\n"),
      ElementsAre(
          "a.yaml:2: steps: there is no such key; the nearest is train.steps",
          "a.yaml:10: compute: is a group of keys, not a value; its keys: dtype, gradient_dtype, "
          "device",
          "a.yaml:13: network.transport: nothing is not one of ucx, tcp",
          HasSubstr("a.yaml:14: cache: there is no such key; the nearest is "),
          "a.yaml:1: model.layers: \"many\" is not an integer from 1 to 10000",
          "a.yaml:4: train.accumulation: \"0\" is not an integer from 1 to 32767",
          "a.yaml:9: train.seed: [1] is not an integer of at least 0",
          "a.yaml:7: train.learning_rate: \"nan\" is not a number of at least 0",
          "a.yaml:5: train.schedule: \"cosin\" is not one of constant, cosine",
          "a.yaml:6: train.beta1: \"1\" is not a number from 0 to below 1",
          "a.yaml:11: layout: \"igi\" is not one of ddp, zero1, zero2, zero3, hsdp, iig, igg, nig, "
          "across, custom",
          HasSubstr("a.yaml:12: prefetch.bytes: \"64MB\" is not a size (KiB, MiB, GiB)"),
          "a.yaml:13: network.rate: \"100MB\" is not a rate (kbit, mbit, gbit) or unknown",
          HasSubstr("a.yaml:13: network.timeout: \"30\" is not a duration"),
          "a.yaml: data.text: is missing; it is text that is not empty: File with the text to "
          "train "
          "on.",
          "a.yaml:8: train.momentum: means something only where train.optimizer is sgd",
          "a.yaml:1: model.width: 10 is not a multiple of model.heads, which is 3"));
}

TEST(ConfigTest, RefusesWhatIsSaidTwice) {
  EXPECT_THAT(Problems("data: {text: t}\ntrain:\n  steps: 3\n  steps: 4\n"),
              ElementsAre("a.yaml:4: train.steps: is given before, at a.yaml:3"));
}

TEST(ConfigTest, RefusesWhatIsNotYaml) {
  EXPECT_THAT(Problems("data: {text: t}\ntrain: {steps: 3\nlayout: [\n"),
              ElementsAre("a.yaml:3: not YAML: end of map flow not found"));
  EXPECT_THAT(Problems("- 1\n- 2\n"), ElementsAre(HasSubstr("a.yaml:1: not a map of keys")));
  EXPECT_THAT(Problems("data: {text: t}", {"layout={"}),
              ElementsAre(HasSubstr("--set: layout: not YAML")));
  EXPECT_THAT(Problems("{data: {text: t}, train: {steps: {a: 1}}}"),
              ElementsAre(HasSubstr("a.yaml:1: train.steps: a map or a nested list is not")));
}

TEST(ConfigTest, ConditionsOnAWrongValueAreNotJudged) {
  EXPECT_THAT(Problems("model: {kind: gtp, elements: [3]}", {"data.text=t"}),
              ElementsAre("a.yaml:1: model.kind: \"gtp\" is not one of gpt, units"));
}

TEST(ConfigTest, SimulatedUnitsNeedNoText) {
  const TrainConfig config =
      MustParse("model: {kind: units, elements: [1, 1009, 4000000000], forward_seconds: 0.25}")
          .values();
  EXPECT_EQ(config.model.kind, ModelKind::kUnits);
  EXPECT_THAT(config.model.elements, ElementsAre(1, 1009, 4000000000));
  EXPECT_EQ(config.model.forward_seconds, 0.25);
  EXPECT_THAT(Problems("model: {kind: units}"),
              ElementsAre(HasSubstr("model.elements: is missing")));
  EXPECT_THAT(Problems("model: {kind: units, elements: []}"),
              ElementsAre(HasSubstr("a.yaml:1: model.elements: an empty list")));
  EXPECT_THAT(Problems("model: {kind: units, elements: [5, 0]\n, width: 3}", {"data.text=t"}),
              ElementsAre("a.yaml:1: model.elements: [5, 0] is not a list of integers, each from 1 "
                          "to 1000000000000",
                          "a.yaml:2: model.width: means something only where model.kind is gpt",
                          "--set: data.text: means something only where model.kind is gpt"));
}

TEST(ConfigTest, WhatIsTooLargeIsRefusedWithTheLimit) {
  for (const char* key : {"model.layers", "model.width", "model.heads", "model.context",
                          "train.micro_batch", "train.accumulation"}) {
    for (const char* value : {"9223372036854775807", "1000000000", "99999999999999999999"}) {
      EXPECT_THAT(Problems("data: {text: t}", {absl::StrCat(key, "=", value)}),
                  ElementsAre(testing::AllOf(HasSubstr(absl::StrCat("--set: ", key, ": \"", value)),
                                             HasSubstr("is not an integer from 1 to "))));
    }
  }
  // Each is possible, all of them are not.
  EXPECT_THAT(Problems("data: {text: t}", {"model.width=1000000", "model.layers=10000"}),
              ElementsAre("--set: model.width: the model has 1.2e+17 parameters; at most 1e+12 are "
                          "possible"));
  EXPECT_THAT(Problems("data: {text: t}", {"train.micro_batch=1000000"}),
              ElementsAre("--set: train.micro_batch: 1000000 sequences of 128 bytes are 1.28e+08 "
                          "in a micro-step; at most 1e+08 are possible"));
  EXPECT_THAT(Problems("model: {kind: units, elements: [9223372036854775807, 1]}"),
              ElementsAre(HasSubstr("is not a list of integers, each from 1 to 1000000000000")));
  EXPECT_THAT(Problems("model: {kind: units, elements: [1000000000000, 1000000000000]}"),
              ElementsAre("a.yaml:1: model.elements: the model has 2e+12 parameters; at most 1e+12 "
                          "are possible"));
}

TEST(ConfigTest, SizeOfAModel) {
  // By hand: embedding 2 x (256 + 3), two blocks of 12 x 4 + 13 x 2, final norm 4.
  const TrainConfig gpt = MustParse(
                              "{data: {text: t}, train: {micro_batch: 5},"
                              " model: {layers: 2, width: 2, heads: 2, context: 3}}")
                              .values();
  EXPECT_EQ(ModelSizeOf(gpt).parameters, 518 + 2 * 74 + 4);
  EXPECT_EQ(ModelSizeOf(gpt).largest_unit, 518);
  EXPECT_EQ(ModelSizeOf(gpt).tokens, 15);
  EXPECT_EQ(ModelSizeOf(gpt).activations, 15 * (2 * (16 * 2 + 2 * 3) + 256));
  const TrainConfig units = MustParse("model: {kind: units, elements: [7, 1009, 2]}").values();
  EXPECT_EQ(ModelSizeOf(units).parameters, 1018);
  EXPECT_EQ(ModelSizeOf(units).largest_unit, 1009);
}

TEST(ConfigTest, LayoutAsAMap) {
  const std::string text =
      "data: {text: t}\n"
      "layout: {parameters: [node], gradients: [], optimizer: [node, cluster]}\n";
  const TrainConfig config = MustParse(text).values();
  EXPECT_EQ(config.layout, "custom");
  EXPECT_THAT(config.shard_parameters, ElementsAre("node"));
  EXPECT_THAT(config.shard_gradients, IsEmpty());
  EXPECT_THAT(config.shard_optimizer, ElementsAre("node", "cluster"));
  // A preset replaces the map, a member changes it, a map replaces a preset.
  EXPECT_EQ(MustParse(text, {"layout=ddp"}).values().layout, "ddp");
  EXPECT_THAT(MustParse(text, {"layout.gradients=[node]"}).values().shard_gradients,
              ElementsAre("node"));
  EXPECT_EQ(MustParse(kFile, {"layout={parameters: [], gradients: [], optimizer: [node]}"})
                .values()
                .layout,
            "custom");
  EXPECT_THAT(
      Problems(text, {"layout.optimizer=[cluster]", "layout.gradients=[rack, node]"}),
      ElementsAre(HasSubstr("a.yaml:2: layout.parameters: has a level that layout.optimizer"),
                  HasSubstr("--set: layout.gradients: has a level that layout.optimizer")));
  EXPECT_THAT(Problems("{data: {text: t}, layout: {parameters: [node], optimiser: [node]}}"),
              ElementsAre(HasSubstr("layout.optimiser: there is no such key; the nearest is "
                                    "layout.optimizer"),
                          HasSubstr("layout.gradients: is missing"),
                          HasSubstr("layout.optimizer: is missing")));
}

TEST(ConfigTest, EveryLayoutThatIsOfferedIsOneOfAJob) {
  const Topology topology = Topology::Uniform(3, 2);
  const Key& key = Keys()[FindKey("layout")];
  EXPECT_GT(key.choices.size(), 5u);
  for (const std::string& name : key.choices) {
    if (name == kCustom) continue;
    EXPECT_OK(ParseLayout(name, topology)) << name;
  }
  EXPECT_THAT(Problems("data: {text: t}", {"layout=topo"}),
              ElementsAre(HasSubstr("is not one of")));
}

TEST(ConfigTest, EffectiveNamesOriginsAndReadsBack) {
  const std::vector<std::string> overrides = {"train.steps=23", "network.interface=\"a b\""};
  const std::string effective = MustParse(kFile, overrides).Effective();
  const auto line_of = [&](const std::string& key) {
    const size_t begin = effective.find(key);
    return effective.substr(begin, effective.find('\n', begin) - begin);
  };
  EXPECT_THAT(line_of("steps: 23"), testing::EndsWith(" # --set"));
  EXPECT_THAT(line_of("layers: 3"), testing::EndsWith(" # a.yaml:2"));
  EXPECT_THAT(line_of("beta1: 0.9"), testing::EndsWith(" # default"));
  EXPECT_THAT(line_of("prefetch"), "prefetch:");
  EXPECT_THAT(effective, testing::Not(HasSubstr("momentum")));
  // What is read back says the same, apart from the origins.
  const auto values = [](const std::string& text) {
    std::string kept;
    for (const auto line : absl::StrSplit(text, '\n')) {
      absl::StrAppend(&kept, absl::string_view(line).substr(0, line.find(" # ")), "\n");
    }
    return kept;
  };
  EXPECT_EQ(values(MustParse(effective).Effective()), values(effective));
  const std::string custom =
      MustParse("{data: {text: t}, layout: {parameters: [], gradients: [], optimizer: [node]}}")
          .Effective();
  EXPECT_EQ(values(MustParse(custom).Effective()), values(custom));
  const std::string units = MustParse("{model: {kind: units, elements: [3, 5]}}").Effective();
  EXPECT_THAT(units, HasSubstr("elements: [3, 5]"));
  EXPECT_EQ(values(MustParse(units).Effective()), values(units));
}

TEST(ConfigTest, AnyTextIsReadBackAsItWas) {
  for (const char* text :
       {"plain.txt", "two words", "a: b",  "#x",     "it's",    "\"quoted\"", "back\\slash",
        "new\nline", "tab\t",     "-dash", "[list]", "{map}",   "*",          "&x",
        "!tag",      "%",         "@",     "`",      " space ", "a #b",       "Gr\u00fc\u00dfe",
        "\x01\x7f",  "a=b",       "~"}) {
    const std::string assignment = absl::StrCat("data.text=", YamlText(text));
    const Config config = MustParse("", {assignment});
    EXPECT_EQ(config.values().data.text, text);
    EXPECT_EQ(MustParse(config.Effective()).values().data.text, text);
  }
}

TEST(ConfigTest, RuntimeOptions) {
  WorldOptions world;
  world.size = 3;
  world.interface = "lo";
  const RuntimeOptions options = ToRuntimeOptions(MustParse(kFile).values(), world);
  EXPECT_EQ(options.world.size, 3);
  EXPECT_EQ(options.world.transport, "tcp");
  EXPECT_EQ(options.world.interface, "e0");
  EXPECT_EQ(options.world.timeout, absl::Seconds(90));
  EXPECT_EQ(options.timeout, absl::Seconds(90));
  EXPECT_EQ(options.layout, "iig");
  EXPECT_EQ(options.compute_dtype, DType::kBf16);
  EXPECT_EQ(options.gradient_dtype, DType::kF32);
  EXPECT_EQ(options.accumulation, 5);
  EXPECT_EQ(options.prefetch_bytes, 3 << 20);
  EXPECT_EQ(options.clip, 1.0f);
  ASSERT_EQ(options.optimizer.groups.size(), 1u);
  EXPECT_EQ(options.optimizer.groups[0].learning_rate, 1e-3f);
  EXPECT_EQ(options.optimizer.groups[0].weight_decay, 0.1f);
  EXPECT_EQ(ToRuntimeOptions(MustParse("data: {text: t}").values(), world).world.interface, "lo");
}

TEST(ConfigTest, LoadsFiles) {
  const std::string path = testing::TempDir() + "/config_test.yaml";
  std::ofstream(path) << "data: {text: t}\ntrain: {stes: 3}\n";
  EXPECT_THAT(Config::Load(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       path + ":2: train.stes: there is no such key; the nearest is train.steps"));
  std::ofstream(path) << "data: {text: t}\n";
  EXPECT_OK(Config::Load(path));
  std::remove(path.c_str());
  EXPECT_THAT(Config::Load(path),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path + " cannot be read")));
}

TEST(ConfigTest, OnlyRegularFilesOfModestSizeAreRead) {
  const std::string path = testing::TempDir() + "/config_test.pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Config::Load(path), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr(path + " cannot be read: it is a pipe, and "
                                                            "only regular files are read")));
  std::remove(path.c_str());
  for (const char* device : {"/dev/zero", "/dev/null"}) {
    EXPECT_THAT(Config::Load(device), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("it is a device, and only")));
  }
  std::ofstream(path) << std::string((1 << 20) + 1, '#');
  EXPECT_THAT(Config::Load(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("it has 1048577 bytes, and at most 1MiB are read")));
  std::remove(path.c_str());
  EXPECT_THAT(Config::Load(testing::TempDir()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Is a directory")));
  // Files of /proc say that they have no bytes.
  EXPECT_THAT(*ReadRegularFile("/proc/self/status", 1 << 20), HasSubstr("config_test"));
}

TEST(ConfigTest, HelpNamesEveryKey) {
  for (const Key& key : Keys()) EXPECT_THAT(ConfigHelp(), HasSubstr(key.path));
}

TEST(ConfigTest, DocumentationIsThatOfTheTable) {
  EXPECT_THAT(ReadFile(STRATA_SOURCE_DIR "/docs/configuration.md"), HasSubstr(ConfigReference()))
      << "docs/configuration.md must contain:\n"
      << ConfigReference();
}

TEST(QuantityTest, Sizes) {
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, int64_t>>{{"0", 0},
                                                    {"1", 1},
                                                    {"1023", 1023},
                                                    {"1KiB", 1024},
                                                    {"7MiB", 7 << 20},
                                                    {"3GiB", int64_t{3} << 30},
                                                    {"1GiB", 1 << 30}}) {
    auto parsed = ParseSize(text);
    ASSERT_OK(parsed);
    EXPECT_EQ(*parsed, bytes);
    EXPECT_EQ(FormatSize(bytes), text);
  }
  EXPECT_EQ(*ParseSize("0.5KiB"), 512);
  for (const char* text : {"", "KiB", "-1", "0.3KiB", "1KB", "1 kib", "1e300", "nan", "5bytes"}) {
    EXPECT_THAT(ParseSize(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("size")))
        << text;
  }
}

TEST(QuantityTest, Rates) {
  EXPECT_EQ(FormatRate(100000000), "100mbit");
  EXPECT_EQ(FormatRate(2500000000), "2500mbit");
  EXPECT_EQ(FormatRate(1000000000), "1gbit");
  EXPECT_EQ(FormatRate(64000), "64kbit");
}

}  // namespace
}  // namespace strata
