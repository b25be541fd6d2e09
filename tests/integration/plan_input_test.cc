// Models, clusters, layouts and flags that `tessera plan` and `estimate` cannot use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class PlanInputTest : public ::testing::Test {
 protected:
  PlanInputTest() { folder_.Write("model.json", SmallModel()); }

  void Refused(const std::string& line, const std::vector<std::string>& words) const {
    ExpectRefusal(line, base::kExitWrongInput, words, folder_);
  }
  // Pins that leave no layout, for both commands on 8 or fewer local ranks.
  void Infeasible(const std::string& flags, const std::vector<std::string>& words) const {
    for (const char* command : {"plan", "estimate"}) {
      ExpectRefusal(std::string(command) + " --model model.json --cluster local-cpu " + flags,
                    base::kExitInfeasible, words, folder_);
    }
  }

  TemporaryFolder folder_;
};

TEST_F(PlanInputTest, HeadsThatDoNotDivideByTheTensorSizeAreInfeasible) {
  Infeasible("--devices 3 --tp 3", {"4 attention heads", "tensor-parallel size 3"});
}

TEST_F(PlanInputTest, ABatchThatDoesNotDivideIsInfeasible) {
  Infeasible("--devices 4 --dp 4 --global-batch-size 6", {"global batch size 6", "4"});
  Infeasible("--devices 1 --micro-batch-size 4 --global-batch-size 6", {"micro-batch size 4"});
}

TEST_F(PlanInputTest, FewerLayersThanStagesAreInfeasible) {
  Infeasible("--devices 8 --pp 8", {"4 layers", "8 pipeline stages"});
}

TEST_F(PlanInputTest, DevicesThatDoNotFactorAreInfeasible) {
  Infeasible("--devices 6 --tp 4", {"6 devices", "4"});
}

TEST_F(PlanInputTest, QuietTellsTheReasonStill) {
  const CommandResult result =
      RunCommand("plan --model model.json --cluster local-cpu --devices 6 --tp 4 --quiet", folder_);
  EXPECT_THAT(result.out, HasSubstr("No layout fits."));
  EXPECT_EQ(result.ErrorLines().size(), 1U);
}

TEST_F(PlanInputTest, AModelTooLargeForTheClusterGetsReasonCountsAndRepairs) {
  const std::string line = "plan --model gpt3-175b --cluster dgx-h100 --devices 8";
  // 16 bytes a parameter in mixed precision with Adam: 2.8 TB; 8 devices have 0.64 TB.
  ExpectRefusal(line, base::kExitInfeasible, {"device memory", "a device has"}, folder_);
  const std::string out = RunCommand(line, folder_).out;
  EXPECT_THAT(out, HasSubstr("No layout fits"));
  EXPECT_THAT(out, HasSubstr("by device memory"));
  EXPECT_THAT(out, HasSubstr("What would make it fit:"));
  EXPECT_THAT(out, HasSubstr("64 devices: "));
}

TEST_F(PlanInputTest, ATypoInAKeyNamesFileKeyAndTheKeyMeant) {
  folder_.WriteEdited("model.json", "typo.json", "hidden_size", "hiden_size");
  Refused("plan --model typo.json --cluster local-cpu",
          {"typo.json: /hiden_size", "\"hidden_size\""});
}

TEST_F(PlanInputTest, AMissingKeyIsNamed) {
  folder_.WriteEdited("model.json", "short.json", "\"num_layers\": 4, ", "");
  Refused("plan --model short.json --cluster local-cpu", {"short.json", "num_layers"});
}

TEST_F(PlanInputTest, AValueOfAnotherTypeIsNamed) {
  folder_.WriteEdited("model.json", "type.json", "\"num_layers\": 4", "\"num_layers\": \"four\"");
  Refused("plan --model type.json --cluster local-cpu", {"type.json: /num_layers", "four"});
}

TEST_F(PlanInputTest, ASyntaxErrorNamesTheLine) {
  folder_.Write("syntax.json", "{\n  \"name\": \"x\",\n  \"num_layers\": 4,,\n}\n");
  Refused("plan --model syntax.json --cluster local-cpu", {"syntax.json", "line 3"});
}

TEST_F(PlanInputTest, ANegativeBandwidthIsRefused) {
  folder_.Write("cluster.json", RunWell("config show dgx-h100", folder_));
  auto cluster = nlohmann::json::parse(folder_.Read("cluster.json"));
  nlohmann::json& bandwidth = cluster["inter_node"]["bandwidth_bytes_per_s"];
  (bandwidth.is_object() ? bandwidth["value"] : bandwidth) = -5e9;
  folder_.Write("cluster.json", cluster.dump());
  Refused("plan --model model.json --cluster cluster.json",
          {"cluster.json: /inter_node/bandwidth_bytes_per_s", "-5000000000", "above 0"});
}

TEST_F(PlanInputTest, AnUnknownPresetGetsASuggestion) {
  Refused("plan --model gpt2-125m --cluster local-cpu", {"gpt2-125m", "gpt2-124m", "config list"});
  Refused("plan --model gpt2-124m --cluster dgx-h1000", {"dgx-h1000", "dgx-h100\"", "config list"});
}

TEST_F(PlanInputTest, AMissingFileIsNamed) {
  Refused("plan --model no/such.json --cluster local-cpu", {"no/such.json"});
  Refused("plan --model model.json --cluster no/such.json", {"no/such.json"});
  Refused("plan --model model.json --cluster local-cpu --hyperparameters no/such.json",
          {"no/such.json"});
}

TEST_F(PlanInputTest, AnUnknownFlagIsNamedEvenWhereItLeavesAnotherMissing) {
  Refused("plan --modle model.json --cluster local-cpu", {"--modle"});
  Refused("estimate --model model.json --cluster local-cpu --tensor 4", {"--tensor"});
  Refused("config show gpt2-124m --all", {"--all"});
}

TEST_F(PlanInputTest, FlagsNeedValuesInTheirRange) {
  const std::string job = "plan --model model.json --cluster local-cpu ";
  Refused(job + "--tp 0", {"--tp", "0"});
  Refused(job + "--tp two", {"--tp", "two"});
  Refused(job + "--devices -4", {"--devices", "-4"});
  Refused(job + "--devices 4096", {"--devices", "4096", "1024"});
  Refused(job + "--zero-stage 4", {"--zero-stage", "4"});
  Refused(job + "--recompute some", {"--recompute", "some", "selective"});
  Refused(job + "--global-batch-size 9223372036854775807", {"--global-batch-size"});
}

TEST_F(PlanInputTest, WithoutModelOrClusterTheMissingFlagIsNamed) {
  Refused("plan --cluster local-cpu", {"--model"});
  Refused("plan --model gpt2-124m", {"--cluster"});
}

TEST_F(PlanInputTest, AnUnknownCommandGetsTheListOfCommands) {
  Refused("plam --model gpt2-124m", {"plam", "plan", "estimate", "train"});
  Refused("", {"tessera --help"});
}

TEST_F(PlanInputTest, APlanThatCannotBeWrittenIsAnErrorOfTheMachine) {
  ExpectRefusal("plan --model model.json --cluster local-cpu --out no/such/folder/plan.json",
                base::kExitFailure, {"no/such/folder/plan.json"}, folder_);
}

}  // namespace
}  // namespace tessera::testing
