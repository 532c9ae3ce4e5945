#include <cstdio>

#include "absl/debugging/failure_signal_handler.h"
#include "absl/debugging/symbolize.h"
#include "gtest/gtest.h"
#include "kernels/log.h"
#include "tests/support/expected_errors.h"

namespace strata {
namespace {

int64_t expected_error_lines = 0;

// An error line that the test did not announce fails it.
class ErrorLinesFail : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    before_ = ErrorLines();
    expected_error_lines = 0;
  }
  void OnTestEnd(const testing::TestInfo&) override {
    const int64_t written = ErrorLines() - before_;
    if (written > expected_error_lines) {
      ADD_FAILURE() << written << " error lines were logged, " << expected_error_lines
                    << " were expected";
    }
  }
  int64_t before_ = 0;
};

}  // namespace

void ExpectErrorLines(int64_t lines) { expected_error_lines += lines; }

}  // namespace strata

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  absl::InitializeSymbolizer(argv[0]);
  absl::InstallFailureSignalHandler({});
  testing::UnitTest::GetInstance()->listeners().Append(new strata::ErrorLinesFail);
  return RUN_ALL_TESTS();
}
