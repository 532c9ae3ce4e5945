#pragma once

#include <cstdint>

namespace strata {

// How the learning rate goes over a training run.
struct LearningRateSchedule {
  float peak = 3e-4f;
  int64_t warmup = 0;  // steps of a straight rise from 0
  int64_t steps = 1;   // of the whole run
  bool cosine = true;  // fall to a tenth of the peak at the end; else constant
};

// Rate of step `step`, from 1. Same bits everywhere: + - * / only.
float LearningRate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace strata
