#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

// Returns the status of `expression` from the enclosing function unless it is OK.
#define STRATA_RETURN_IF_ERROR(expression)                                                       \
  do {                                                                                           \
    if (absl::Status strata_status_ = (expression); !strata_status_.ok()) return strata_status_; \
  } while (false)

#define STRATA_CONCAT_INNER_(a, b) a##b
#define STRATA_CONCAT_(a, b) STRATA_CONCAT_INNER_(a, b)
#define STRATA_ASSIGN_OR_RETURN_IMPL_(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return std::move(result).status();            \
  target = std::move(result).value()

// Assigns the value of a StatusOr, or returns its status from the enclosing function.
#define STRATA_ASSIGN_OR_RETURN(target, expression) \
  STRATA_ASSIGN_OR_RETURN_IMPL_(STRATA_CONCAT_(strata_result_, __LINE__), target, expression)

// Ends the process with a stack trace when `condition` is false: a bug, never a state of the world.
#define STRATA_CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::strata::CheckFailed(#condition, __FILE__, __LINE__))

namespace strata {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

// The same code with "context: " put before the message. Each layer adds its context once, on the
// way up. OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// Whether the caller can change what is wrong: InvalidArgument, NotFound, FailedPrecondition,
// ResourceExhausted or PermissionDenied.
bool IsCallersError(const absl::Status& status);

}  // namespace strata
