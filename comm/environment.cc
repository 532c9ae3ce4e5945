#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "comm/slurm_hosts.h"
#include "comm/world.h"
#include "kernels/status.h"

namespace strata {
namespace {

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

absl::StatusOr<int> Number(const char* name, const std::string& value, int least, int most) {
  int number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= least && number <= most) return number;
  return absl::InvalidArgumentError(absl::StrCat(name, "=\"", value, "\" is not a number from ",
                                                 least, " to ", most, "; correct it"));
}

absl::Status Missing(const char* present, const char* missing, absl::string_view meaning) {
  return absl::InvalidArgumentError(
      absl::StrCat(present, " is set but ", missing, " is not; set it to ", meaning));
}

constexpr int kMostRanks = 1 << 20;

// Rank and size of one launcher, from the first pair of variables.
absl::Status ReadRank(const char* rank_name, const char* size_name, WorldOptions& options) {
  const std::optional<std::string> rank = Variable(rank_name);
  const std::optional<std::string> size = Variable(size_name);
  if (!rank) return Missing(size_name, rank_name, "the rank of this process, from 0");
  if (!size) return Missing(rank_name, size_name, "the number of processes");
  STRATA_ASSIGN_OR_RETURN(options.size, Number(size_name, *size, 1, kMostRanks));
  STRATA_ASSIGN_OR_RETURN(options.launcher_rank, Number(rank_name, *rank, 0, options.size - 1));
  return absl::OkStatus();
}

// "host:port", "[::1]:port".
absl::Status ReadRendezvous(const std::string& value, WorldOptions& options) {
  const size_t colon = value.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return absl::InvalidArgumentError(absl::StrCat("STRATA_RENDEZVOUS=\"", value,
                                                   "\" is not host:port; write it as node1:29400"));
  }
  std::string host = value.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  options.rendezvous_host = host;
  STRATA_ASSIGN_OR_RETURN(options.rendezvous_port, Number("the port of STRATA_RENDEZVOUS",
                                                          value.substr(colon + 1), 1, 65535));
  return absl::OkStatus();
}

// torchrun's agent itself listens on MASTER_PORT when it says so; the next port is ours then.
absl::Status ReadMaster(WorldOptions& options) {
  if (const auto host = Variable("MASTER_ADDR")) options.rendezvous_host = *host;
  const auto port = Variable("MASTER_PORT");
  if (!port) return absl::OkStatus();
  STRATA_ASSIGN_OR_RETURN(options.rendezvous_port, Number("MASTER_PORT", *port, 1, 65535));
  if (Variable("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    options.rendezvous_port += options.rendezvous_port < 65535 ? 1 : -1;
  }
  return absl::OkStatus();
}

absl::Status ReadTorchrun(WorldOptions& options) {
  STRATA_RETURN_IF_ERROR(ReadRank("RANK", "WORLD_SIZE", options));
  if (options.size > 1 && !Variable("STRATA_RENDEZVOUS")) {
    if (!Variable("MASTER_ADDR")) return Missing("RANK", "MASTER_ADDR", "the host of rank 0");
    if (!Variable("MASTER_PORT")) return Missing("RANK", "MASTER_PORT", "a free port of that host");
  }
  return ReadMaster(options);
}

absl::Status ReadSlurm(WorldOptions& options) {
  // Of the step, where there is one: an allocation may hold more tasks than it.
  const char* size = Variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  STRATA_RETURN_IF_ERROR(ReadRank("SLURM_PROCID", size, options));
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (const auto list = Variable(name)) {
      absl::StatusOr<std::string> host = FirstSlurmHost(*list);
      if (!host.ok()) return Annotate(host.status(), name);
      options.rendezvous_host = *std::move(host);
      break;
    }
  }
  return ReadMaster(options);
}

// Neither Open MPI nor PMIx tells where rank 0 runs.
absl::Status ReadMpi(const char* rank, const char* size, WorldOptions& options) {
  STRATA_RETURN_IF_ERROR(ReadRank(rank, size, options));
  const bool one_host = Variable("OMPI_COMM_WORLD_LOCAL_SIZE") == Variable(size);
  if (options.size > 1 && !one_host && !Variable("MASTER_ADDR") && !Variable("STRATA_RENDEZVOUS")) {
    return Missing(rank, "STRATA_RENDEZVOUS", "host:port of rank 0");
  }
  return ReadMaster(options);
}

}  // namespace

absl::StatusOr<WorldOptions> WorldOptionsFromEnvironment() {
  WorldOptions options;
  if (Variable("RANK") || Variable("WORLD_SIZE")) {
    STRATA_RETURN_IF_ERROR(ReadTorchrun(options));
  } else if (Variable("SLURM_PROCID")) {
    STRATA_RETURN_IF_ERROR(ReadSlurm(options));
  } else if (Variable("OMPI_COMM_WORLD_RANK")) {
    STRATA_RETURN_IF_ERROR(ReadMpi("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", options));
  } else if (Variable("PMIX_RANK")) {
    STRATA_RETURN_IF_ERROR(ReadMpi("PMIX_RANK", "STRATA_WORLD_SIZE", options));
  } else if (Variable("STRATA_RANK") || Variable("STRATA_WORLD_SIZE")) {
    STRATA_RETURN_IF_ERROR(ReadRank("STRATA_RANK", "STRATA_WORLD_SIZE", options));
    if (options.size > 1 && !Variable("STRATA_RENDEZVOUS")) {
      return Missing("STRATA_RANK", "STRATA_RENDEZVOUS", "host:port of rank 0");
    }
  }
  if (const auto value = Variable("STRATA_RENDEZVOUS")) {
    STRATA_RETURN_IF_ERROR(ReadRendezvous(*value, options));
  }
  if (const auto value = Variable("STRATA_TOKEN")) options.token = *value;
  if (const auto value = Variable("STRATA_INTERFACE")) options.interface = *value;
  if (const auto value = Variable("STRATA_NODE")) options.node = *value;
  return options;
}

}  // namespace strata
