#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan.h"

namespace strata {

// When a step's turn comes among the ready ones. Compared member by member.
struct Turn {
  int64_t round = 0;
  int64_t chunk = 0;
  int64_t rotation = 0;
  auto operator<=>(const Turn&) const = default;
};

// Collects the steps of one plan in any order that puts dependencies first, and brings them into
// the order of their turns. A step never comes before one that it depends on, whatever its turn;
// receives come first of all, because a posted receive costs nothing and saves the sender's bytes a
// detour.
class PlanBuilder {
 public:
  // `shell` has everything but steps and scratch. Scratch is handed out such that no slice of at
  // most `chunk_bytes` crosses a multiple of it.
  PlanBuilder(Plan shell, int64_t chunk_bytes)
      : plan_(std::move(shell)), chunk_bytes_(chunk_bytes) {}

  Slice AddScratch(int64_t bytes);

  // All return the step's number, for `after`.
  int Recv(Rank peer, int level, uint32_t message, Slice dst);
  int Send(Rank peer, int level, uint32_t message, Slice src, Turn turn,
           std::span<const int> after);
  int Copy(Slice src, Slice dst, Turn turn);
  int Reduce(Slice src, Slice other, Slice dst, Turn turn, std::span<const int> after);

  // `step` waits for `other` too, whose turn is not later.
  void After(int step, int other) { drafts_[step].after.push_back(other); }

  Plan Finish() &&;

 private:
  struct Draft {
    Step step;
    Turn turn;
    std::vector<int> after;
  };
  int Add(const Step& step, Turn turn, std::span<const int> after);

  Plan plan_;
  int64_t chunk_bytes_;
  std::vector<Draft> drafts_;
};

}  // namespace strata
