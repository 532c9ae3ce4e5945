#include "tests/unit/comm/random_plans.h"

#include <algorithm>
#include <random>

namespace strata {
namespace {

constexpr int kSlots = 6;

std::vector<std::byte> BytesOf(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

class Maker {
 public:
  Maker(const Topology& topology, int64_t slot_elements, uint64_t seed)
      : topology_(topology),
        random_(seed),
        slot_elements_(slot_elements),
        plans_(topology.size()),
        uses_(topology.size(), std::vector<Use>(kSlots)),
        values_(topology.size(), std::vector<float>(kSlots * slot_elements)) {}

  RandomPlans Make(int steps) {
    RandomPlans made;
    for (int rank = 0; rank < topology_.size(); ++rank) {
      Plan& plan = plans_[rank];
      plan.name = "random";
      plan.input_bytes = plan.output_bytes = plan.scratch_bytes = kSlots * SlotBytes();
      for (float& value : values_[rank]) value = static_cast<float>(Random(1000)) / 7;
      made.inputs.push_back(BytesOf(values_[rank]));
      for (int slot = 0; slot < kSlots; ++slot) {
        Add(rank, {.op = Op::kCopy, .src = At(BufferId::kInput, slot), .dst = Scratch(slot)}, {},
            slot);
      }
    }
    for (int step = 0; step < steps; ++step) AddRandomStep();
    for (int rank = 0; rank < topology_.size(); ++rank) {
      for (int slot = 0; slot < kSlots; ++slot) {
        Add(rank, {.op = Op::kCopy, .src = Scratch(slot), .dst = At(BufferId::kOutput, slot)},
            {slot}, -1);
      }
      made.plans.push_back(std::make_shared<const Plan>(plans_[rank]));
      made.outputs.push_back(BytesOf(values_[rank]));
    }
    return made;
  }

 private:
  // Steps of a rank that used a slot last.
  struct Use {
    std::vector<int> writer;
    std::vector<int> readers;
  };

  int Random(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  int64_t SlotBytes() const { return slot_elements_ * 4; }
  Slice At(BufferId buffer, int slot) const { return {buffer, slot * SlotBytes(), SlotBytes()}; }
  Slice Scratch(int slot) const { return At(BufferId::kScratch, slot); }
  float* Value(int rank, int slot) { return values_[rank].data() + slot * slot_elements_; }

  // `write` -1: nothing in scratch.
  void Add(int rank, Step step, const std::vector<int>& reads, int write) {
    Plan& plan = plans_[rank];
    const int index = static_cast<int>(plan.steps.size());
    std::vector<int> after;
    const auto add = [&after](const std::vector<int>& steps) {
      after.insert(after.end(), steps.begin(), steps.end());
    };
    for (const int slot : reads) add(uses_[rank][slot].writer);
    if (write >= 0) {
      add(uses_[rank][write].writer);
      add(uses_[rank][write].readers);
      uses_[rank][write] = {.writer = {index}, .readers = {}};
    }
    for (const int slot : reads) {
      if (slot != write) uses_[rank][slot].readers.push_back(index);
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    step.first_dependency = static_cast<int>(plan.dependencies.size());
    step.dependency_count = static_cast<int>(after.size());
    plan.dependencies.insert(plan.dependencies.end(), after.begin(), after.end());
    plan.steps.push_back(step);
  }

  void AddRandomStep() {
    const int rank = Random(topology_.size());
    const int a = Random(kSlots), b = Random(kSlots), c = Random(kSlots);
    const int peer = Random(topology_.size());
    if (peer != rank) {
      const int level = topology_.LevelBetween(Rank{rank}, Rank{peer});
      const uint32_t message = next_message_++;
      Add(rank,
          {.op = Op::kSend,
           .level = level,
           .peer = Rank{peer},
           .message = message,
           .src = Scratch(a)},
          {a}, -1);
      Add(peer,
          {.op = Op::kRecv,
           .level = level,
           .peer = Rank{rank},
           .message = message,
           .dst = Scratch(b)},
          {}, b);
      std::copy_n(Value(rank, a), slot_elements_, Value(peer, b));
      return;
    }
    if (a == b || a == c) return;
    Add(rank, {.op = Op::kReduce, .src = Scratch(b), .other = Scratch(c), .dst = Scratch(a)},
        {b, c}, a);
    for (int64_t i = 0; i < slot_elements_; ++i) {
      Value(rank, a)[i] = Value(rank, b)[i] + Value(rank, c)[i];
    }
  }

  const Topology& topology_;
  std::mt19937_64 random_;
  const int64_t slot_elements_;
  std::vector<Plan> plans_;
  std::vector<std::vector<Use>> uses_;      // [rank][slot]
  std::vector<std::vector<float>> values_;  // [rank], all slots
  uint32_t next_message_ = 0;
};

}  // namespace

RandomPlans MakeRandomPlans(const Topology& topology, int steps, int64_t slot_elements,
                            uint64_t seed) {
  return Maker(topology, slot_elements, seed).Make(steps);
}

}  // namespace strata
