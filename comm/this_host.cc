#include "comm/this_host.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace strata {

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string NodeName() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  const bool known = stat("/proc/self/ns/net", &network) == 0;
  return absl::StrCat(boot, " ", HostName(), " ", known ? network.st_ino : 0);
}

}  // namespace strata
