#include "engine/comm/launch_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

using Variables = std::map<std::string, std::string>;

ReadVariable From(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string ProblemOf(const Variables& variables) {
  try {
    FindProcessRank(From(variables));
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(LaunchEnvironmentTest, TheRankAmongThoseOfTheHostIsTakenWhereItIsTold) {
  const Variables launches[] = {
      {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}},
      {{"OMPI_COMM_WORLD_RANK", "2"},
       {"OMPI_COMM_WORLD_SIZE", "4"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}}};
  for (const Variables& variables : launches) {
    EXPECT_EQ(FindProcessRank(From(variables))->local_rank, 1) << variables.begin()->first;
  }
  EXPECT_EQ(FindProcessRank(From({{"RANK", "2"}, {"WORLD_SIZE", "4"}}))->local_rank, std::nullopt);
}

TEST(LaunchEnvironmentTest, EveryLauncherIsUnderstood) {
  const Variables launches[] = {
      {{"RANK", "2"}, {"WORLD_SIZE", "4"}},
      {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}},
      // MPICH's mpiexec, and Intel MPI's.
      {{"PMI_RANK", "2"},
       {"PMI_SIZE", "4"},
       {"PMI_FD", "7"},
       {"PMI_SPAWNED", "0"},
       {"MPI_LOCALRANKID", "0"},
       {"MPI_LOCALNRANKS", "2"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "0"}},
      // mpirun inside an allocation of Slurm's: its own numbers count.
      {{"OMPI_COMM_WORLD_RANK", "2"},
       {"OMPI_COMM_WORLD_SIZE", "4"},
       {"SLURM_PROCID", "0"},
       {"SLURM_NTASKS", "1"}}};
  for (const Variables& launch : launches) {
    const auto process = FindProcessRank(From(launch));
    ASSERT_TRUE(process) << launch.begin()->first;
    EXPECT_EQ(process->rank, 2) << process->launcher;
    EXPECT_EQ(process->num_ranks, 4) << process->launcher;
  }
}

TEST(LaunchEnvironmentTest, AProcessOfItsOwnIsNoRank) {
  EXPECT_FALSE(FindProcessRank(From({})));
  EXPECT_FALSE(FindProcessRank(From({{"RANK", "0"}, {"WORLD_SIZE", "1"}})));
  // The batch script that calls srun, or not.
  EXPECT_FALSE(
      FindProcessRank(From({{"SLURM_JOB_ID", "9"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})));
  EXPECT_FALSE(FindProcessRank(From({{"SLURM_NTASKS", "8"}})));
}

TEST(LaunchEnvironmentTest, NumbersThatMakeNoSenseAreNamed) {
  EXPECT_EQ(ProblemOf({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
            "the environment: RANK: found \"4\", expected a number from 0 to 3");
  EXPECT_EQ(ProblemOf({{"RANK", "1"}}),
            "the environment: WORLD_SIZE: found nothing, expected a number, as torchrun sets it "
            "with RANK");
  EXPECT_EQ(ProblemOf({{"PMI_SIZE", "two"}, {"PMI_RANK", "0"}}),
            "the environment: PMI_SIZE: found \"two\", expected a number from 1 to 16777216");
}

TEST(LaunchEnvironmentTest, TheMeetingPlaceIsAFileOrAPort) {
  const Variables torch = {{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(FindMeetingPlace(From(torch)).address, "node7");
  EXPECT_EQ(FindMeetingPlace(From(torch)).port, 29500);
  Variables with_store = torch;
  with_store["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(FindMeetingPlace(From(with_store)).port, 29501);
  Variables with_file = torch;
  with_file["TESSERA_MEETING_FILE"] = "/nfs/meet";
  EXPECT_EQ(FindMeetingPlace(From(with_file)).file, "/nfs/meet");
  EXPECT_THROW(FindMeetingPlace(From({})), base::ConfigError);
  EXPECT_THROW(FindMeetingPlace(From({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}})),
               base::ConfigError);
}

}  // namespace
}  // namespace tessera::engine
