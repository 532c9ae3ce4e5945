#include "cli/lab/network.h"

#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "cli/lab/tool.h"
#include "kernels/status.h"

namespace strata {
namespace {

// A burst of 2 MB would show 134 % of the link at 8 MiB; 32 KB costs 3 % of packets. See
// docs/lab.md.
std::string ShapeCommand(const std::string& interface, const LinkOptions& link) {
  return absl::Substitute("qdisc add dev $0 root tbf rate $1bit burst 256kb latency 20ms\n",
                          interface, link.bits_per_second);
}

absl::StatusOr<int64_t> ReadStatistic(const std::string& interface, const std::string& name) {
  const std::string path = absl::StrCat("/sys/class/net/", interface, "/statistics/", name);
  int64_t value = 0;
  if (!(std::ifstream(path) >> value)) return absl::InternalError("cannot read " + path);
  return value;
}

// For interfaces that are made from now on in the network namespace of the calling process: IPv6
// announces itself, which would be counted as traffic, and knows no packets below 1280 bytes.
absl::Status UseIpv4Only() {
  constexpr char kFile[] = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
  if (access(kFile, F_OK) != 0) return absl::OkStatus();  // a system without IPv6
  if (std::ofstream(kFile) << "1\n" << std::flush) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot write ", kFile));
}

}  // namespace

std::string NodeName(int node) { return absl::StrCat("node", node); }

std::string NodeAddress(int node) {
  const int number = node + 1;
  return absl::StrCat("10.83.", number / 250, ".", number % 250 + (number >= 250 ? 1 : 0));
}

absl::Status MakeBridge() {
  STRATA_RETURN_IF_ERROR(UseIpv4Only());
  return RunTool({"ip", "-batch", "-"},
                 "link add bridge0 type bridge\n"
                 "link set bridge0 up\n");
}

absl::Status MakeNodeLink(int node, const LinkOptions& link, int bridge_namespace) {
  STRATA_RETURN_IF_ERROR(UseIpv4Only());
  STRATA_RETURN_IF_ERROR(RunTool(
      {"ip", "-batch", "-"},
      absl::Substitute("link set lo up\n"
                       "link add $0 mtu $1 type veth peer name $2 mtu $1 netns /proc/1/fd/$3\n"
                       "address add $4/16 broadcast + dev $0\n"
                       "link set $0 up\n",
                       kNodeInterface, link.mtu, NodeName(node), bridge_namespace,
                       NodeAddress(node))));
  return RunTool({"tc", "-batch", "-"}, ShapeCommand(kNodeInterface, link));
}

absl::Status PlugIn(int nodes, const LinkOptions& link) {
  std::string plug, shape;
  for (int node = 0; node < nodes; ++node) {
    absl::SubstituteAndAppend(&plug,
                              "link set $0 master bridge0\n"
                              "link set $0 up\n",
                              NodeName(node));
    shape += ShapeCommand(NodeName(node), link);
  }
  STRATA_RETURN_IF_ERROR(RunTool({"ip", "-batch", "-"}, plug));
  return RunTool({"tc", "-batch", "-"}, shape);
}

absl::StatusOr<std::vector<LinkCounters>> ReadCounters(int nodes) {
  std::vector<LinkCounters> all;
  for (int node = 0; node < nodes; ++node) {
    // At the bridge's end: what the node sent is what this end received.
    const std::string name = NodeName(node);
    LinkCounters counters;
    STRATA_ASSIGN_OR_RETURN(counters.tx_bytes, ReadStatistic(name, "rx_bytes"));
    STRATA_ASSIGN_OR_RETURN(counters.tx_packets, ReadStatistic(name, "rx_packets"));
    STRATA_ASSIGN_OR_RETURN(counters.rx_bytes, ReadStatistic(name, "tx_bytes"));
    STRATA_ASSIGN_OR_RETURN(counters.rx_packets, ReadStatistic(name, "tx_packets"));
    all.push_back(counters);
  }
  return all;
}

}  // namespace strata
