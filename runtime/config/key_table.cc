#include "runtime/config/key_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/layout.h"
#include "runtime/config/model_size.h"

namespace strata {
namespace {

template <typename Enum>
Field Choice(Enum& value) {
  static_assert(sizeof(Enum) == sizeof(uint8_t));
  return ChoiceField{reinterpret_cast<uint8_t*>(&value)};
}

// The presets for the levels that a job has, node and cluster, which are not all there are.
std::vector<std::string> LayoutNames() {
  const Topology topology = Topology::Uniform(2, 2);
  std::vector<std::string> names = LayoutPresets();
  std::erase_if(names, [&](const std::string& name) { return !ParseLayout(name, topology).ok(); });
  names.push_back(kCustom);
  return names;
}

constexpr Range kCount{.least = 1, .most = 1e9};
constexpr Range kCountOrNone{.least = 0, .most = 1e9};
constexpr Range kLayers{.least = 1, .most = 1e4};
constexpr Range kWidth{.least = 1, .most = 1e6};
constexpr Range kSequence{.least = 1, .most = 1e6};
constexpr Range kSequences{.least = 1, .most = 1e6};
constexpr Range kMicroSteps{.least = 1, .most = 32767};
constexpr Range kElements{.least = 1, .most = kMostParameters};
constexpr Range kAtLeastOne{.least = 1};
constexpr Range kShare{.least = 0, .most = 1, .below = true};
constexpr Condition kIfGpt{"model.kind", "gpt"};
constexpr Condition kIfUnits{"model.kind", "units"};
constexpr Condition kIfAdamW{"train.optimizer", "adamw"};
constexpr Condition kIfSgd{"train.optimizer", "sgd"};
constexpr Condition kIfCustom{"layout", kCustom};

using C = TrainConfig;
using F = Field;

const std::vector<Key>& Table() {
  // clang-format off
  static const std::vector<Key>& keys = *new std::vector<Key>{
    {"model.kind", [](C& c) -> F { return Choice(c.model.kind); }, "gpt",
     "The byte-level reference model, or units of given sizes whose compute is simulated.",
     {}, {"gpt", "units"}},
    {"model.layers", [](C& c) -> F { return IntegerField{&c.model.layers}; }, "4",
     "Transformer layers.", kLayers, {}, kIfGpt},
    {"model.width", [](C& c) -> F { return IntegerField{&c.model.width}; }, "256",
     "Width of the residual stream; a multiple of model.heads.", kWidth, {}, kIfGpt},
    {"model.heads", [](C& c) -> F { return IntegerField{&c.model.heads}; }, "8",
     "Attention heads.", kWidth, {}, kIfGpt},
    {"model.context", [](C& c) -> F { return IntegerField{&c.model.context}; }, "128",
     "Bytes of text that one sequence sees.", kSequence, {}, kIfGpt},
    {"model.elements", [](C& c) -> F { return IntegersField{&c.model.elements}; }, nullptr,
     "Parameters of each unit, in order of use.", kElements, {}, kIfUnits},
    {"model.forward_seconds", [](C& c) -> F { return NumberField{&c.model.forward_seconds}; }, "0",
     "Simulated compute of one forward over all units.", {.least = 0, .most = 3600}, {}, kIfUnits},
    {"model.backward_seconds", [](C& c) -> F { return NumberField{&c.model.backward_seconds}; },
     "0",
     "Simulated compute of one backward over all units.", {.least = 0, .most = 3600}, {}, kIfUnits},

    {"data.text", [](C& c) -> F { return TextField{&c.data.text}; }, nullptr,
     "File with the text to train on.", {}, {}, kIfGpt},

    {"train.steps", [](C& c) -> F { return IntegerField{&c.train.steps}; }, "200",
     "Optimizer steps.", kCount},
    {"train.micro_batch", [](C& c) -> F { return IntegerField{&c.train.micro_batch}; }, "8",
     "Sequences per rank and micro-step.", kSequences},
    {"train.accumulation", [](C& c) -> F { return IntegerField{&c.train.accumulation}; }, "1",
     "Micro-steps per step.", kMicroSteps},
    {"train.seed", [](C& c) -> F { return IntegerField{&c.train.seed}; }, "1",
     "Of the initial parameters and the order of the data.", {}},
    {"train.optimizer", [](C& c) -> F { return Choice(c.train.optimizer); }, "adamw",
     "How parameters are updated.", {}, {"adamw", "sgd"}},
    {"train.learning_rate", [](C& c) -> F { return NumberField{&c.train.learning_rate}; }, "3e-4",
     "The largest learning rate of the schedule.", {}},
    {"train.warmup", [](C& c) -> F { return IntegerField{&c.train.warmup}; }, "0",
     "Steps over which the learning rate rises; at most train.steps.", kCountOrNone},
    {"train.schedule", [](C& c) -> F { return Choice(c.train.schedule); }, "cosine",
     "How the learning rate goes on after the warmup.", {}, {"constant", "cosine"}},
    {"train.weight_decay", [](C& c) -> F { return NumberField{&c.train.weight_decay}; }, "0",
     "Decoupled weight decay.", {}},
    {"train.beta1", [](C& c) -> F { return NumberField{&c.train.beta1}; }, "0.9",
     "Decay of the first moment.", kShare, {}, kIfAdamW},
    {"train.beta2", [](C& c) -> F { return NumberField{&c.train.beta2}; }, "0.999",
     "Decay of the second moment.", kShare, {}, kIfAdamW},
    {"train.epsilon", [](C& c) -> F { return NumberField{&c.train.epsilon}; }, "1e-8",
     "Added to the root of the second moment.", {}, {}, kIfAdamW},
    {"train.momentum", [](C& c) -> F { return NumberField{&c.train.momentum}; }, "0",
     "Decay of the running sum of gradients.", kShare, {}, kIfSgd},
    {"train.clip", [](C& c) -> F { return NumberField{&c.train.clip}; }, "0",
     "Largest norm of the whole gradient; 0 does not clip.", {}},
    {"train.eval_every", [](C& c) -> F { return IntegerField{&c.train.eval_every}; }, "0",
     "Steps between evaluations; 0 never evaluates.", kCountOrNone},

    {"compute.dtype", [](C& c) -> F { return Choice(c.compute.dtype); }, "f32",
     "Type of parameters and gradients in compute; the optimizer's are always f32.",
     {}, {"f32", "bf16"}},
    {"compute.gradient_dtype", [](C& c) -> F { return Choice(c.compute.gradient_dtype); }, "f32",
     "Type in which gradients cross links.", {}, {"f32", "bf16"}, {}, "compute.dtype"},
    {"compute.device", [](C& c) -> F { return Choice(c.compute.device); }, "host",
     "Where compute runs.", {}, {"host"}},

    {"layout", [](C& c) -> F { return TextField{&c.layout}; }, "zero3",
     "Over which levels each state is sharded: a preset, or a map with the three keys below.",
     {}, LayoutNames()},
    {"layout.parameters", [](C& c) -> F { return NamesField{&c.shard_parameters}; }, nullptr,
     "Levels that parameters are sharded over.", {}, {}, kIfCustom},
    {"layout.gradients", [](C& c) -> F { return NamesField{&c.shard_gradients}; }, nullptr,
     "Levels that gradients are sharded over.", {}, {}, kIfCustom},
    {"layout.optimizer", [](C& c) -> F { return NamesField{&c.shard_optimizer}; }, nullptr,
     "Levels that optimizer state is sharded over; these include those of the other two.",
     {}, {}, kIfCustom},

    {"prefetch.bytes", [](C& c) -> F { return SizeField{&c.prefetch.bytes}; }, "64MiB",
     "Memory for gathered units and gradient buffers; at least twice the largest unit.",
     kAtLeastOne},

    {"reduction", [](C& c) -> F { return Choice(c.reduction); }, "canonical",
     "Order in which gradients are added.", {}, {"canonical"}},

    {"network.transport", [](C& c) -> F { return TextField{&c.network.transport}; }, "ucx",
     "What carries bytes between nodes.", {}, {"ucx", "tcp"}},
    {"network.interface", [](C& c) -> F { return TextField{&c.network.interface}; }, "",
     "Network interface between nodes; empty: the launcher's choice, else the route to rank 0."},
    {"network.rate", [](C& c) -> F { return RateField{&c.network.rate}; }, "unknown",
     "What a node's link carries in one direction, for the ideal step time."},
    {"network.chunk", [](C& c) -> F { return SizeField{&c.network.chunk}; }, "256KiB",
     "Largest single transfer; a power of two.", {.least = 4096, .most = 1 << 21}},
    {"network.timeout", [](C& c) -> F { return DurationField{&c.network.timeout}; }, "30s",
     "Of every wait for other ranks.", {.least = 0.1, .most = 86400}},
  };
  // clang-format on
  return keys;
}

absl::string_view LastPart(absl::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

std::span<const Key> Keys() { return Table(); }

int FindKey(absl::string_view path) {
  const auto keys = Keys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [path](const Key& key) { return key.path == path; });
  return found == keys.end() ? -1 : static_cast<int>(found - keys.begin());
}

bool IsSection(absl::string_view path) {
  const std::string prefix = absl::StrCat(path, ".");
  return std::ranges::any_of(Keys(),
                             [&](const Key& key) { return absl::StartsWith(key.path, prefix); });
}

int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const int changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

const Key& NearestKey(absl::string_view path) {
  // A key in the wrong section is as near as one with a letter wrong.
  const auto distance = [path](const Key& key) {
    return std::min(EditDistance(path, key.path),
                    EditDistance(LastPart(path), LastPart(key.path)) + 1);
  };
  return *std::ranges::min_element(Keys(), {}, distance);
}

}  // namespace strata
