#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/config/train_config.h"
#include "runtime/reference_model.h"

namespace strata {

// For a model that needs libtorch in a program without it: becomes the program next to this one
// that has it, with the same arguments. Returns where there is no need, or no such program. Before
// the first thread.
void BecomeProgramFor(const TrainConfig& config);

// The model that `config.model` describes. InvalidArgument when it needs libtorch and this program
// has none.
absl::StatusOr<std::unique_ptr<ReferenceModel>> MakeModel(const TrainConfig& config);

// Bytes of text in a sequence of its batches.
int64_t SequenceLength(const TrainConfig& config);

// What changes the bits of the model's mathematics on this host, by name; ranks must agree on it.
// Sets what is to be set for that first.
std::map<std::string, std::string> ModelFingerprint(const TrainConfig& config);

// The file of the library that multiplies its matrices; empty when it multiplies none.
std::string ModelBlas(const TrainConfig& config);

}  // namespace strata
