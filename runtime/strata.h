#pragma once

/* The C interface of Strata: the verbs of runtime/runtime.h over opaque handles.
 *
 * Every function returns a code; strata_last_error() is the message of the last one that was not
 * STRATA_OK on this thread. Calls block, at most the runtime's timeout; one thread at a time.
 * Strings and arrays are the caller's and are read during the call only. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are those of absl::StatusCode. */
typedef enum strata_status {
  STRATA_OK = 0,
  STRATA_INVALID_ARGUMENT = 3, /* the caller's mistake: nothing has changed */
  STRATA_DEADLINE_EXCEEDED = 4,
  STRATA_RESOURCE_EXHAUSTED = 8,  /* over budget; the message has the key to change */
  STRATA_FAILED_PRECONDITION = 9, /* the caller's mistake, or ranks that are out of step */
  STRATA_ABORTED = 10,
  STRATA_INTERNAL = 13,    /* the library's mistake */
  STRATA_UNAVAILABLE = 14, /* a peer is lost */
  STRATA_DATA_LOSS = 15
} strata_status;

typedef enum strata_dtype { STRATA_F32 = 0, STRATA_BF16 = 1 } strata_dtype;
typedef enum strata_phase {
  STRATA_FORWARD = 0,
  STRATA_BACKWARD = 1,
  STRATA_RECOMPUTE = 2,
  STRATA_EVAL = 3
} strata_phase;
typedef enum strata_optimizer { STRATA_ADAMW = 0, STRATA_SGD = 1 } strata_optimizer;

typedef struct strata_runtime strata_runtime;

/* Fill with strata_options_init, then change what should differ. Rank, size and rendezvous come
 * from the environment: torchrun's, Slurm's, Open MPI's, PMIx's or STRATA_*. */
typedef struct strata_options {
  const char* layout;    /* a preset: "zero3", "iig", ... */
  const char* transport; /* between nodes: "ucx" or "tcp" */
  strata_dtype compute_dtype, gradient_dtype;
  int accumulation;       /* micro-steps per step */
  int64_t prefetch_bytes; /* budget of unit memory */
  float clip;             /* largest global gradient norm; 0: none */
  strata_optimizer optimizer;
  float learning_rate, weight_decay, beta1, beta2, epsilon, momentum;
  double timeout_seconds; /* of every wait */
  const char* trace;      /* file for a timeline, or NULL */
} strata_options;

typedef struct strata_parameter {
  const char* name; /* unique in the runtime */
  int64_t elements;
} strata_parameter;

/* Writes the initial values of elements [first, first + count) of parameter number `parameter` of
 * the unit that is being added. */
typedef void (*strata_initializer)(void* context, int parameter, int64_t first, int64_t count,
                                   float* values);

typedef struct strata_report {
  int64_t step; /* 0: none yet */
  double loss;  /* sum over ranks */
  double norm_before_clip, norm_after_clip;
  int skipped;                        /* a gradient was not finite on some rank */
  int64_t sent_bytes, received_bytes; /* of this rank, over all levels */
  double seconds, compute_seconds;
} strata_report;

const char* strata_last_error(void);
void strata_options_init(strata_options* options);

strata_status strata_start(const strata_options* options, strata_runtime** runtime);
int strata_rank(const strata_runtime* runtime);
int strata_world_size(const strata_runtime* runtime);

/* Element e of parameter p of a unit lies at offsets[p] + e of what strata_acquire gives; `offsets`
 * has room for `count` numbers, or is NULL. */
strata_status strata_add_unit(strata_runtime* runtime, const char* name,
                              const strata_parameter* parameters, int count,
                              strata_initializer initializer, void* context, int* unit,
                              int64_t* offsets);
strata_status strata_seal(strata_runtime* runtime);

/* `gradients` may be NULL, and is written in STRATA_BACKWARD only. */
strata_status strata_acquire(strata_runtime* runtime, int unit, strata_phase phase,
                             void** parameters, void** gradients);
strata_status strata_reduce(strata_runtime* runtime, int unit);
strata_status strata_release(strata_runtime* runtime, int unit);

/* `learning_rate` < 0 keeps the one in use. `report` (may be NULL) is of the step before. */
strata_status strata_end_step(strata_runtime* runtime, double loss, double learning_rate,
                              strata_report* report);
strata_status strata_flush(strata_runtime* runtime, strata_report* report);

/* Writes 64 hexadecimal digits and a zero. Collective; after strata_flush. */
strata_status strata_parameters_sha256(strata_runtime* runtime, char digest[65]);

/* Leaves the job. Not NULL, `why` is what the others then end with. Frees nothing. */
strata_status strata_shutdown(strata_runtime* runtime, const char* why);
void strata_free(strata_runtime* runtime); /* shuts down if need be; NULL is fine */

#ifdef __cplusplus
}
#endif
