#include "cli/lab/counters_file.h"

#include "nlohmann/json.hpp"

namespace strata {

std::string CountersJson(const CountersReport& report) {
  nlohmann::json nodes = nlohmann::json::array();
  for (size_t node = 0; node < report.after.size(); ++node) {
    const LinkCounters& before = report.before[node];
    const LinkCounters& after = report.after[node];
    nodes.push_back({{"host", NodeName(static_cast<int>(node))},
                     {"address", NodeAddress(static_cast<int>(node))},
                     {"tx_bytes", after.tx_bytes - before.tx_bytes},
                     {"tx_packets", after.tx_packets - before.tx_packets},
                     {"rx_bytes", after.rx_bytes - before.rx_bytes},
                     {"rx_packets", after.rx_packets - before.rx_packets}});
  }
  const nlohmann::json document = {{"schema_version", 1},
                                   {"link_bits_per_second", report.bits_per_second},
                                   {"mtu", report.mtu},
                                   {"seconds", absl::ToDoubleSeconds(report.duration)},
                                   {"nodes", nodes}};
  return document.dump(2) + "\n";
}

}  // namespace strata
