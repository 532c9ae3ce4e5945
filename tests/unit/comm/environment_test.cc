#include <cstdlib>
#include <map>
#include <string>

#include "comm/slurm_hosts.h"
#include "comm/world.h"
#include "tests/support/status_matchers.h"

namespace strata {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kVariables[] = {"RANK",
                                      "WORLD_SIZE",
                                      "MASTER_ADDR",
                                      "MASTER_PORT",
                                      "SLURM_PROCID",
                                      "SLURM_NTASKS",
                                      "SLURM_STEP_NUM_TASKS",
                                      "SLURM_STEP_NODELIST",
                                      "PMIX_RANK",
                                      "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "STRATA_RANK",
                                      "STRATA_WORLD_SIZE",
                                      "STRATA_RENDEZVOUS",
                                      "STRATA_TOKEN",
                                      "STRATA_NODE",
                                      "STRATA_INTERFACE",
                                      "SLURM_JOB_NODELIST",
                                      "SLURM_NODELIST",
                                      "TORCHELASTIC_USE_AGENT_STORE"};

// What the variables, and none else, lead to.
absl::StatusOr<WorldOptions> With(const std::map<std::string, std::string>& variables) {
  for (const char* name : kVariables) unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  auto options = WorldOptionsFromEnvironment();
  for (const char* name : kVariables) unsetenv(name);
  return options;
}

void ExpectWorld(const absl::StatusOr<WorldOptions>& options, int rank, int size,
                 const std::string& host, int port) {
  ASSERT_OK(options);
  EXPECT_EQ(options->launcher_rank, rank);
  EXPECT_EQ(options->size, size);
  EXPECT_EQ(options->rendezvous_host, host);
  EXPECT_EQ(options->rendezvous_port, port);
}

void ExpectInvalid(const std::map<std::string, std::string>& variables, const std::string& first,
                   const std::string& second) {
  EXPECT_THAT(With(variables), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr(first), HasSubstr(second))));
}

TEST(EnvironmentTest, NothingMeansOneProcess) { ExpectWorld(With({}), 0, 1, "127.0.0.1", 29400); }

TEST(EnvironmentTest, Torchrun) {
  const std::map<std::string, std::string> torchrun = {
      {"RANK", "3"}, {"WORLD_SIZE", "5"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "1234"}};
  ExpectWorld(With(torchrun), 3, 5, "node7", 1234);
  auto agent = torchrun;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  ExpectWorld(With(agent), 3, 5, "node7", 1235);
  auto first = torchrun;  // torchrun's names come first
  first.insert({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "9"}, {"STRATA_RANK", "1"}});
  ExpectWorld(With(first), 3, 5, "node7", 1234);
}

TEST(EnvironmentTest, Slurm) {
  ExpectWorld(With({{"SLURM_PROCID", "2"},
                    {"SLURM_NTASKS", "8"},
                    {"SLURM_STEP_NUM_TASKS", "3"},
                    {"SLURM_STEP_NODELIST", "gpu[07-09],x"},
                    {"MASTER_PORT", "77"}}),
              2, 3, "gpu07", 77);
}

TEST(EnvironmentTest, OpenMpiAndPmix) {
  ExpectWorld(With({{"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "3"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}),
              1, 3, "127.0.0.1", 29400);
  ExpectWorld(With({{"PMIX_RANK", "1"}, {"STRATA_WORLD_SIZE", "2"}, {"STRATA_RENDEZVOUS", "h:5"}}),
              1, 2, "h", 5);
  ExpectInvalid({{"OMPI_COMM_WORLD_RANK", "1"},
                 {"OMPI_COMM_WORLD_SIZE", "3"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
                "OMPI_COMM_WORLD_RANK", "STRATA_RENDEZVOUS");
}

TEST(EnvironmentTest, OwnVariables) {
  const auto options = With({{"STRATA_RANK", "6"},
                             {"STRATA_WORLD_SIZE", "7"},
                             {"STRATA_RENDEZVOUS", "[::1]:80"},
                             {"STRATA_TOKEN", "t"},
                             {"STRATA_NODE", "n"},
                             {"STRATA_INTERFACE", "e0"}});
  ExpectWorld(options, 6, 7, "::1", 80);
  EXPECT_EQ(options->token, "t");
  EXPECT_EQ(options->node, "n");
  EXPECT_EQ(options->interface, "e0");
}

TEST(EnvironmentTest, OwnRendezvousReplacesTheLaunchers) {
  ExpectWorld(With({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"STRATA_RENDEZVOUS", "a.b:1"}}), 0, 2,
              "a.b", 1);
}

TEST(EnvironmentTest, MalformedValuesAreNamed) {
  ExpectInvalid({{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}},
                "RANK", "\"x\"");
  ExpectInvalid({{"STRATA_RANK", "2"}, {"STRATA_WORLD_SIZE", "2"}, {"STRATA_RENDEZVOUS", "h:1"}},
                "STRATA_RANK", "from 0 to 1");
  ExpectInvalid({{"STRATA_RANK", "0"}, {"STRATA_WORLD_SIZE", "0"}, {"STRATA_RENDEZVOUS", "h:1"}},
                "STRATA_WORLD_SIZE", "\"0\"");
  ExpectInvalid({{"STRATA_RENDEZVOUS", "host"}}, "STRATA_RENDEZVOUS", "host:port");
  ExpectInvalid({{"STRATA_RENDEZVOUS", "host:70000"}}, "STRATA_RENDEZVOUS", "70000");
  ExpectInvalid({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "a["}},
                "SLURM_NODELIST", "\"a[\"");
}

TEST(EnvironmentTest, MissingVariablesAreNamed) {
  ExpectInvalid({{"RANK", "0"}}, "RANK", "WORLD_SIZE");
  ExpectInvalid({{"WORLD_SIZE", "2"}}, "WORLD_SIZE", "RANK");
  ExpectInvalid({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "RANK", "MASTER_ADDR");
  ExpectInvalid({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}, "RANK", "MASTER_PORT");
  ExpectInvalid({{"STRATA_RANK", "0"}, {"STRATA_WORLD_SIZE", "2"}}, "STRATA_RANK",
                "STRATA_RENDEZVOUS");
}

TEST(SlurmHostsTest, FirstHost) {
  const std::pair<const char*, const char*> cases[] = {{"a", "a"},
                                                       {"a,b", "a"},
                                                       {"n[001-003]", "n001"},
                                                       {"n[7,9-11],m", "n7"},
                                                       {"r[1-2]c[4-5]", "r1c4"},
                                                       {"n[3]-ib", "n3-ib"}};
  for (const auto& [list, first] : cases) {
    const auto host = FirstSlurmHost(list);
    ASSERT_OK(host) << list;
    EXPECT_EQ(*host, first);
  }
  for (const char* list : {"", ",", "a[", "a]", "a[[1]]"}) {
    EXPECT_THAT(FirstSlurmHost(list),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("STRATA_RENDEZVOUS")))
        << list;
  }
}

}  // namespace
}  // namespace strata
