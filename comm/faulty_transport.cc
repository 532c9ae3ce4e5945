#include "comm/faulty_transport.h"

#include "absl/strings/str_cat.h"

namespace strata {

absl::StatusOr<absl::Time> FaultyTransport::Fate(Rank peer, int64_t bytes) {
  if (options_.fail_one_in > 0 && random_() % options_.fail_one_in == 0) {
    return absl::UnavailableError(
        absl::StrCat("peer ", Index(peer), ": a send of ", bytes, " bytes was made to fail"));
  }
  const auto longest = static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.send_delay));
  return loop().Now() + absl::Nanoseconds(random_() % (longest + 1));
}

}  // namespace strata
