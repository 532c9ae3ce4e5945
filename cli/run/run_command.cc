#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/placement.h"
#include "cli/run/hosts.h"
#include "cli/supervisor.h"
#include "kernels/status.h"

namespace strata {
namespace {

constexpr char kFooter[] =
    "Reaches each host by ssh without a password, once per rank, and runs the program there in "
    "the\n"
    "folder of the same name. The ranks get the environment that torchrun sets and STRATA_TOKEN;\n"
    "STRATA_* variables set here are passed on. Ranks end when this command does.\n"
    "Examples:\n"
    "  strata run --hosts a,b:4 -- python3 train.py\n"
    "  strata run --hosts a,b --rsh 'ssh -p 2222' -- hostname";

struct RunOptions {
  std::string hosts;
  std::string rsh = "ssh -o BatchMode=yes";
  std::string address;
  int port = 29400;
  double grace_seconds = 8;
};

// Variables of ours that the user set, so that they hold on all hosts.
std::vector<std::string> OurVariables() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (text.starts_with("STRATA_") && !text.starts_with("STRATA_TOKEN=")) {
      variables.push_back(text);
    }
  }
  return variables;
}

absl::StatusOr<int> RunOnHosts(const RunOptions& options, const std::vector<std::string>& program) {
  STRATA_ASSIGN_OR_RETURN(const std::vector<Host> hosts, ParseHosts(options.hosts));
  const std::vector<std::string> rsh = absl::StrSplit(options.rsh, ' ', absl::SkipEmpty());
  if (rsh.empty()) return absl::InvalidArgumentError("--rsh is empty");
  STRATA_RETURN_IF_ERROR(Annotate(FindProgram(rsh[0]).status(), "--rsh"));
  if (program.empty()) {
    return absl::InvalidArgumentError("no program; put it after \"--\", as in -- hostname");
  }
  if (options.port < 1 || options.port > 65535) {
    return absl::InvalidArgumentError("--port is outside 1 to 65535");
  }
  std::vector<int> ranks_of_host;
  for (const Host& host : hosts) ranks_of_host.push_back(host.ranks);
  const std::string token = RandomToken();
  // The token travels on standard input: a command line is for all users of a host to read.
  const JobAddress address{options.address.empty() ? hosts[0].name : options.address, options.port,
                           ""};
  const std::string folder = std::filesystem::current_path();
  std::vector<Launch> launches;
  for (const RankPlace& place : PlaceRanks(ranks_of_host, Placement::kBlock)) {
    std::vector<std::string> environment = OurVariables();
    for (std::string& variable : RankEnvironment(place, ranks_of_host, address)) {
      environment.push_back(std::move(variable));
    }
    Launch launch;
    launch.rank = place.rank;
    launch.where = hosts[place.node].name;
    launch.program = rsh;
    launch.program.push_back(launch.where);
    launch.program.push_back(RemoteScript(folder, environment, program));
    launch.remote_input = token + "\n";
    launches.push_back(std::move(launch));
  }
  return Supervise(launches, {"run", Label::kOthers, absl::Seconds(options.grace_seconds)});
}

}  // namespace

void AddRun(CommandLine& line) {
  CLI::App* run = line.app().add_subcommand("run", "Run a program once per rank on real hosts");
  run->footer(kFooter);
  auto options = std::make_shared<RunOptions>();
  run->add_option("--hosts", options->hosts, "Hosts and ranks on each: a,b:4")->required();
  run->add_option("--rsh", options->rsh, "Command that runs another on a host")
      ->capture_default_str();
  run->add_option("--address", options->address,
                  "Where ranks meet: an address of the first host, if its name is not one");
  run->add_option("--port", options->port, "Port of the first host where ranks meet")
      ->capture_default_str();
  run->add_option("--grace", options->grace_seconds,
                  "Seconds that other ranks have to end after one failed")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
  line.Bind(
      run,
      [options, &line] {
        const absl::StatusOr<int> result = RunOnHosts(*options, line.program());
        return result.ok() ? *result : ReportError("run", result.status());
      },
      CommandLine::Words::kTakesProgram);
}

}  // namespace strata
