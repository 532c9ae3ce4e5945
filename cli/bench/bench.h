#pragma once

#include "cli/bench/options.h"

namespace strata {

// Joins the world that the environment describes, measures, and lets rank 0 report. Returns the
// exit code: 0 when every size was measured and is as good as the options ask for, 2 for bad input,
// 128 + SIGINT when interrupted, else 1. Errors are one line on stderr.
int Bench(const BenchOptions& options);

}  // namespace strata
