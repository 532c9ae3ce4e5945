#include <memory>
#include <string>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/lab/lab.h"

namespace strata {
namespace {

constexpr char kFooter[] =
    "Every node has its own network, host name, IPC, /dev/shm and boot id; the program runs once\n"
    "per rank with the environment that torchrun sets, STRATA_TOKEN and STRATA_INTERFACE=e0.\n"
    "Examples:\n"
    "  strata lab run --nodes 2 --ranks-per-node 2 --link 100mbit -- hostname\n"
    "  strata lab run --nodes 3 --ranks-per-node 1 --link 1gbit --counters net.json -- ./program";

Label LabelNamed(const std::string& name) {
  return name == "all" ? Label::kAll : name == "none" ? Label::kNone : Label::kOthers;
}

}  // namespace

void AddLab(CommandLine& line) {
  CLI::App* lab = line.app().add_subcommand("lab", "An emulated cluster on this machine");
  lab->require_subcommand(1);
  CLI::App* run = lab->add_subcommand("run", "Run a program once per rank on it");
  run->footer(kFooter);

  struct Options {
    LabOptions lab;
    double grace_seconds = 8;
    bool no_network = false;
    std::string placement = "block";
    std::string label = "others";
  };
  auto options = std::make_shared<Options>();
  run->add_option("--nodes", options->lab.nodes, "Nodes")->required();
  run->add_option("--ranks-per-node", options->lab.ranks_per_node, "Ranks of each node")
      ->required();
  CLI::Option* link = run->add_option("--link", options->lab.link,
                                      "Rate of each node's link, both ways: 100mbit, 1gbit");
  CLI::Option* mtu =
      run->add_option("--mtu", options->lab.mtu, "Largest packet of the links, bytes")
          ->capture_default_str();
  run->add_option("--placement", options->placement, "Ranks to nodes: block or round-robin")
      ->check(CLI::IsMember({"block", "round-robin"}).description(""))
      ->capture_default_str();
  run->add_option("--label", options->label,
                  "Whose lines get \"[rank] \" in front: others (than rank 0), all, none")
      ->check(CLI::IsMember({"others", "all", "none"}).description(""))
      ->capture_default_str();
  run->add_option("--grace", options->grace_seconds,
                  "Seconds that other ranks have to end after one failed")
      ->capture_default_str();
  CLI::Option* counters = run->add_option("--counters", options->lab.counters,
                                          "Write the interfaces' byte and packet counts, as JSON");
  run->add_flag("--no-network", options->no_network,
                "Plain processes on loopback: no privilege needed, links are not shaped")
      ->excludes(link)
      ->excludes(mtu)
      ->excludes(counters);

  line.Bind(
      run,
      [options, &line] {
        options->lab.placement =
            options->placement == "block" ? Placement::kBlock : Placement::kRoundRobin;
        options->lab.label = LabelNamed(options->label);
        options->lab.grace = absl::Seconds(options->grace_seconds);
        if (!options->no_network && options->lab.link.empty()) {
          return ReportError("lab run",
                             absl::InvalidArgumentError("--link is missing, as in --link 100mbit"));
        }
        const absl::StatusOr<int> result = options->no_network
                                               ? RunOnLoopback(options->lab, line.program())
                                               : RunLab(options->lab, line.program());
        return result.ok() ? *result : ReportError("lab run", result.status());
      },
      CommandLine::Words::kTakesProgram);
}

}  // namespace strata
