/* Trains a small MLP, written by hand, on XOR-like data through the C interface. Run it by itself,
 * or once per rank under a launcher: strata run, torchrun, srun, mpirun. Exits 0 when the loss
 * fell. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/strata.h"

enum { kIn = 2, kHidden = 16, kSamples = 32, kSteps = 200 };

/* Ends the program with the library's message unless `call` succeeds. */
#define CHECK(call)                                            \
  do {                                                         \
    if ((call) != STRATA_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, strata_last_error()); \
      exit(1);                                                 \
    }                                                          \
  } while (0)

/* The same numbers on every rank: they depend on the place of an element alone. */
static float Number(int64_t place) {
  const uint64_t mixed = (uint64_t)(place + 1) * 0x9e3779b97f4a7c15u;
  return (float)((mixed ^ mixed >> 31) % 2001) / 1000.0f - 1.0f;
}

static void Initialize(void* context, int parameter, int64_t first, int64_t count, float* values) {
  const int64_t layer = *(const int64_t*)context;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = 0.7f * Number(layer * 10007 + parameter * 1009 + first + i);
  }
}

int main(void) {
  strata_options options;
  strata_options_init(&options);
  options.layout = "zero3";
  options.transport = "tcp";
  options.learning_rate = 0.02f;
  options.clip = 1;
  strata_runtime* runtime = NULL;
  CHECK(strata_start(&options, &runtime));

  const strata_parameter first[] = {{"first.weight", kHidden * kIn}, {"first.bias", kHidden}};
  const strata_parameter second[] = {{"second.weight", kHidden}, {"second.bias", 1}};
  int units[2];
  int64_t at1[2], at2[2], layers[2] = {0, 1};
  CHECK(strata_add_unit(runtime, "first", first, 2, Initialize, &layers[0], &units[0], at1));
  CHECK(strata_add_unit(runtime, "second", second, 2, Initialize, &layers[1], &units[1], at2));
  CHECK(strata_seal(runtime));

  double loss_at_start = 0;
  strata_report report;
  for (int step = 0; step < kSteps; ++step) {
    float x[kSamples][kIn], hidden[kSamples][kHidden], error[kSamples];
    void *parameters, *gradients;
    for (int s = 0; s < kSamples; ++s) {
      for (int i = 0; i < kIn; ++i) {
        x[s][i] =
            Number(((int64_t)strata_rank(runtime) * kSteps + step) * kSamples * kIn + s * kIn + i);
      }
    }
    CHECK(strata_acquire(runtime, units[0], STRATA_FORWARD, &parameters, NULL));
    const float* w1 = parameters;
    for (int s = 0; s < kSamples; ++s) {
      for (int h = 0; h < kHidden; ++h) {
        float sum = w1[at1[1] + h];
        for (int i = 0; i < kIn; ++i) sum += w1[at1[0] + h * kIn + i] * x[s][i];
        hidden[s][h] = tanhf(sum);
      }
    }
    CHECK(strata_release(runtime, units[0]));

    /* Forward and backward of the second layer in one go. */
    float back[kSamples][kHidden];
    double loss = 0;
    CHECK(strata_acquire(runtime, units[1], STRATA_BACKWARD, &parameters, &gradients));
    const float* w2 = parameters;
    float* g2 = gradients;
    for (int s = 0; s < kSamples; ++s) {
      float out = w2[at2[1]];
      for (int h = 0; h < kHidden; ++h) out += w2[at2[0] + h] * hidden[s][h];
      error[s] = out - (x[s][0] * x[s][1] > 0 ? 1.0f : -1.0f);
      loss += (double)(error[s] * error[s]) / kSamples;
      g2[at2[1]] += 2 * error[s] / kSamples;
      for (int h = 0; h < kHidden; ++h) {
        g2[at2[0] + h] += 2 * error[s] * hidden[s][h] / kSamples;
        back[s][h] = 2 * error[s] * w2[at2[0] + h] * (1 - hidden[s][h] * hidden[s][h]) / kSamples;
      }
    }
    CHECK(strata_reduce(runtime, units[1]));
    CHECK(strata_release(runtime, units[1]));

    CHECK(strata_acquire(runtime, units[0], STRATA_BACKWARD, &parameters, &gradients));
    float* g1 = gradients;
    for (int s = 0; s < kSamples; ++s) {
      for (int h = 0; h < kHidden; ++h) {
        g1[at1[1] + h] += back[s][h];
        for (int i = 0; i < kIn; ++i) g1[at1[0] + h * kIn + i] += back[s][h] * x[s][i];
      }
    }
    CHECK(strata_reduce(runtime, units[0]));
    CHECK(strata_release(runtime, units[0]));
    CHECK(strata_end_step(runtime, loss, -1, &report));
    if (report.step == 1) loss_at_start = report.loss;
  }
  char digest[65];
  CHECK(strata_flush(runtime, &report));
  CHECK(strata_parameters_sha256(runtime, digest));
  const int ranks = strata_world_size(runtime);
  if (strata_rank(runtime) == 0) {
    printf("loss %.4f -> %.4f over %d ranks, parameters %s\n", loss_at_start / ranks,
           report.loss / ranks, ranks, digest);
  }
  CHECK(strata_shutdown(runtime, NULL));
  strata_free(runtime);
  return report.loss < loss_at_start / 2 ? 0 : 1;
}
