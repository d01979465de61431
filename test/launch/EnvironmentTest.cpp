// Launchers' environments, whole and broken.
#include "runtime/launch/Environment.h"

#include <gtest/gtest.h>
#include <map>

using namespace pipec;
using namespace pipec::runtime;

namespace {

using Map = std::map<std::string, std::string>;

const Map kTorchrun{{"RANK", "3"},
                    {"WORLD_SIZE", "8"},
                    {"LOCAL_RANK", "1"},
                    {"MASTER_ADDR", "n0"},
                    {"MASTER_PORT", "29500"},
                    {"TORCHELASTIC_RUN_ID", "x"},
                    {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Map kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                   {"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                   {"PMIX_NAMESPACE", "1234"}};
const Map kSlurm{{"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "6"},  {"SLURM_LOCALID", "2"},
                 {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "1"}, {"SLURM_JOB_NODELIST", "gpu[03-05,7],other"}};

Status read(const Map &map, Environment &environment) {
  return readEnvironment(
      [&](const char *name) -> const char * {
        auto found = map.find(name);
        return found == map.end() ? nullptr : found->second.c_str();
      },
      environment);
}

Map with(Map map, const Map &more) {
  for (const auto &[name, value] : more)
    map[name] = value;
  return map;
}

std::string messageOf(const Map &map) {
  Environment environment;
  Status status = read(map, environment);
  EXPECT_EQ(status.code, Code::Usage);
  return status.message;
}

TEST(Environment, Torchrun) {
  Environment e;
  ASSERT_TRUE(read(kTorchrun, e).ok());
  EXPECT_EQ(e.source, "torchrun");
  EXPECT_EQ((std::vector<int32_t>{e.rank, e.world, e.localRank}), (std::vector<int32_t>{3, 8, 1}));
  EXPECT_EQ(e.host, "n0");
  EXPECT_EQ(e.port, 29501); // its own store may sit on the other
  EXPECT_EQ(e.job, "x/2/");
  EXPECT_EQ(e.attempt, 2);
}

TEST(Environment, OpenMpiOnOneMachineNeedsNothingMore) {
  Environment e;
  ASSERT_TRUE(read(kOpenMpi, e).ok());
  EXPECT_EQ(e.host, "127.0.0.1");
  EXPECT_GE(e.port, 20'000);
  EXPECT_LT(e.port, 30'000);
  EXPECT_NE(messageOf(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})).find("mpirun -x MASTER_ADDR=HOST"),
            std::string::npos);
}

TEST(Environment, SlurmNamesItsFirstHost) {
  Environment e;
  ASSERT_TRUE(read(kSlurm, e).ok());
  EXPECT_EQ(e.host, "gpu03");
  EXPECT_EQ(e.job, "77/1/");
  EXPECT_EQ(e.attempt, 0);
  ASSERT_TRUE(read(with(kSlurm, {{"SLURM_RESTART_COUNT", "3"}}), e).ok());
  EXPECT_EQ(e.attempt, 3);
  for (const auto &[list, host] :
       Map{{"one", "one"}, {"a,b", "a"}, {"n[7]", "n7"}, {"r[1-2]x,q", "r1x"}, {"n[001,003]", "n001"}}) {
    ASSERT_TRUE(read(with(kSlurm, {{"SLURM_JOB_NODELIST", list}}), e).ok());
    EXPECT_EQ(e.host, host);
  }
}

TEST(Environment, SaysWhetherTheJobIsOnSeveralMachines) {
  auto spread = [](const Map &map, const Map &more) {
    Environment e;
    EXPECT_TRUE(read(with(map, more), e).ok());
    return e.spread;
  };
  EXPECT_FALSE(spread(kTorchrun, {}));
  EXPECT_FALSE(spread(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}}));
  EXPECT_TRUE(spread(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}}));
  EXPECT_FALSE(spread(kOpenMpi, {}));
  EXPECT_TRUE(spread(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"MASTER_ADDR", "h"}}));
  EXPECT_FALSE(spread(kSlurm, {{"SLURM_NNODES", "1"}}));
  EXPECT_TRUE(spread(kSlurm, {{"SLURM_NNODES", "3"}}));
}

TEST(Environment, SourcesThatAgreeAreOne) {
  Environment e;
  ASSERT_TRUE(read(with(kTorchrun, {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "8"}}), e).ok());
  EXPECT_EQ(e.source, "torchrun");
}

TEST(Environment, SourcesThatDisagreeAreNamedWithBothValues) {
  EXPECT_EQ(messageOf(with(kTorchrun, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})),
            "torchrun and Slurm disagree: RANK is 3, SLURM_PROCID is 0; unset those of the one that did not start this "
            "process");
  EXPECT_NE(messageOf(with(kTorchrun, {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "9"}}))
                .find("WORLD_SIZE is 8, OMPI_COMM_WORLD_SIZE is 9"),
            std::string::npos);
}

TEST(Environment, WhatIsMissingOrWrongIsNamed) {
  EXPECT_NE(messageOf({}).find("add --local"), std::string::npos);
  EXPECT_EQ(messageOf({{"RANK", "0"}}), "WORLD_SIZE is not set, expected a number from 1 to 65536");
  EXPECT_EQ(messageOf(with(kTorchrun, {{"RANK", "8"}})), "RANK is \"8\", expected a number from 0 to 7");
  EXPECT_EQ(messageOf(with(kTorchrun, {{"WORLD_SIZE", "0x8"}})),
            "WORLD_SIZE is \"0x8\", expected a number from 1 to 65536");
  EXPECT_NE(messageOf(with(kTorchrun, {{"MASTER_PORT", "65535"}})).find("MASTER_PORT"), std::string::npos);
  EXPECT_NE(messageOf({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "h"}}).find("set MASTER_PORT"),
            std::string::npos);
}

} // namespace
