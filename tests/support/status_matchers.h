#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// StatusIs(code, message matcher).
MATCHER_P2(StatusIs, code, message, "") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         testing::ExplainMatchResult(message, std::string(StatusOf(arg).message()),
                                     result_listener);
}

}  // namespace strata

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::strata::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::strata::IsOk())
