// `tessera profile`: a cluster file that the other commands read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

TEST(ProfileCommandTest, MeasuresAMachineThatPlansCanBeMadeFor) {
  const TemporaryFolder folder;
  MakeSmallJob(folder);
  EXPECT_THAT(RunWell("profile --out machine.json --name my-machine", folder),
              HasSubstr("machine.json"));
  const auto machine = nlohmann::json::parse(folder.Read("machine.json"));
  EXPECT_EQ(machine["name"], "my-machine");
  const nlohmann::json answer = RunForJson(
      "plan --model model.json --cluster machine.json --devices 4 --tp 2 --pp 2 --seq-length 32 "
      "--global-batch-size 8 --out plan.json",
      folder);
  EXPECT_EQ(answer["cluster"], "my-machine");
  EXPECT_GT(answer["rows"][0]["step_time_s"], 0);
  RunWell("train --plan plan.json --data corpus --steps 1 --quiet", folder);
}

TEST(ProfileCommandTest, AFileThatCannotBeWrittenIsAnErrorOfTheMachine) {
  const TemporaryFolder folder;
  ExpectRefusal("profile --out no/such/folder/machine.json --quiet", base::kExitFailure,
                {"no/such/folder/machine.json"}, folder);
}

}  // namespace
}  // namespace tessera::testing
