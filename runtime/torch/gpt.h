#pragma once

#include <memory>

#include "runtime/reference_model.h"
#include "runtime/torch/gpt_options.h"

namespace strata {

// The reference model: a byte-level GPT whose mathematics is libtorch's, one thread.
std::unique_ptr<ReferenceModel> MakeGpt(const GptOptions& options);

}  // namespace strata
