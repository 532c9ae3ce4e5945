#include "comm/slurm_hosts.h"

#include "absl/strings/str_cat.h"

namespace strata {

// The first alternative of every bracket, up to the first comma outside of brackets.
absl::StatusOr<std::string> FirstSlurmHost(const std::string& list) {
  const auto malformed = [&list] {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", list, "\" is not a list of hosts; set STRATA_RENDEZVOUS to host:port of rank 0"));
  };
  std::string host;
  bool inside = false, skipping = false;
  for (const char c : list) {
    if (c == '[') {
      if (inside) return malformed();
      inside = true;
    } else if (c == ']') {
      if (!inside) return malformed();
      inside = skipping = false;
    } else if (inside) {
      skipping = skipping || c == '-' || c == ',';
      if (!skipping) host.push_back(c);
    } else if (c == ',') {
      break;
    } else {
      host.push_back(c);
    }
  }
  if (inside || host.empty()) return malformed();
  return host;
}

}  // namespace strata
