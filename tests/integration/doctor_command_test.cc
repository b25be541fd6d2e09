// What looks at a run and at a machine: comparisons of layouts, checks of replicas and links,
// profiles, warnings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class DoctorCommandTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    MakeSmallJob(*folder_);
    PlanSmall(kTensorAndPipeline, "tensor.json", *folder_);
    PlanSmall("--tp 1 --pp 1 --dp 4 --micro-batch-size 2", "data.json", *folder_);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::unique_ptr<TemporaryFolder> folder_;
};

std::unique_ptr<TemporaryFolder> DoctorCommandTest::folder_;

constexpr char kCompare[] =
    "train --compare-layouts tensor.json data.json --data corpus --steps 2 --quiet";

TEST_F(DoctorCommandTest, LayoutsThatTrainTheSameAreToldSo) {
  const std::string out = RunWell(kCompare, *folder_);
  EXPECT_THAT(out, AllOf(HasSubstr("Both layouts train the same"), ContainsRegex("loss +2 "),
                         ContainsRegex("second moment +[0-9]+ ")));
  const nlohmann::json json = RunForJson(kCompare, *folder_);
  EXPECT_EQ(json["same"], true);
  EXPECT_TRUE(json["first_difference"].is_null());
  EXPECT_EQ(json["kinds"].size(), 6U);
}

TEST_F(DoctorCommandTest, TheFirstTensorBeyondTheToleranceEndsWithAFailure) {
  // Nothing may differ: rounding does.
  const CommandResult result =
      RunCommand(std::string(kCompare) + " --tolerance 0 --format json", *folder_);
  EXPECT_EQ(result.exit_code, base::kExitFailure);
  const nlohmann::json first = nlohmann::json::parse(result.out)["first_difference"];
  EXPECT_GT(first["deviation"].get<double>(), 0);
  EXPECT_NE(first["a"], first["b"]);
  const CommandResult table = RunCommand(std::string(kCompare) + " --tolerance 0", *folder_);
  EXPECT_EQ(table.exit_code, base::kExitFailure);
  EXPECT_THAT(table.out, HasSubstr(first["of"].get<std::string>()));
}

TEST_F(DoctorCommandTest, PlansOfTwoTrainingsAreNotCompared) {
  folder_->WriteEdited("data.json", "other.json", "\"seed\": 1234", "\"seed\": 4321");
  ExpectRefusal("train --compare-layouts tensor.json other.json --data corpus",
                base::kExitWrongInput, {"/training", "two trainings"}, *folder_);
  ExpectRefusal("train --compare-layouts tensor.json --data corpus", base::kExitWrongInput,
                {"--compare-layouts"}, *folder_);
  ExpectRefusal("train --data corpus", base::kExitWrongInput, {"--plan"}, *folder_);
}

TEST_F(DoctorCommandTest, ReplicasAreCheckedAtTheInterval) {
  const CommandResult result =
      RunCommand("train --plan data.json --data corpus --steps 4 --check-replicas 2", *folder_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("step 0: "), HasSubstr("step 2: "), HasSubstr("step 4: "),
                                HasSubstr("the same on all ranks")));
  EXPECT_THAT(result.err, Not(HasSubstr("step 3: ")));
}

TEST_F(DoctorCommandTest, AProfileHoldsTheOperationsOfTheRankAskedFor) {
  const std::string out = RunWell(
      "train --plan tensor.json --data corpus --steps 3 --quiet --profile ops.json "
      "--profile-rank 2",
      *folder_);
  EXPECT_THAT(out, AllOf(HasSubstr("Operations of rank 2 (pp 1, dp 0, cp 0, tp 0), 2 steps"),
                         HasSubstr("kind and shape"), HasSubstr("tensor comm.")));
  const auto profile = nlohmann::json::parse(folder_->Read("ops.json"));
  EXPECT_EQ(profile["rank"], 2);
  EXPECT_EQ(profile["pipeline"], 1);
  EXPECT_EQ(profile["num_steps"], 2);
  double share = 0;
  int num_with_peak = 0;
  for (const nlohmann::json& op : profile["ops"]) {
    share += op["share"].get<double>();
    num_with_peak += op["share_of_peak"].is_null() ? 0 : 1;
  }
  EXPECT_GT(share, 0);
  EXPECT_LE(share, 1);
  EXPECT_GT(num_with_peak, 0);
  // A forward pass of a micro-batch ends in one maximum over the vocabulary.
  const auto maximum =
      std::find_if(profile["ops"].begin(), profile["ops"].end(),
                   [](const nlohmann::json& op) { return op["kind"] == "cross_entropy_max"; });
  ASSERT_NE(maximum, profile["ops"].end());
  EXPECT_EQ((*maximum)["count_per_step"], kSmallNumMicrobatches);
  // Compute beside the prediction's.
  EXPECT_EQ(profile["groups"][0]["group"], "compute");
  EXPECT_GT(profile["groups"][0]["predicted_seconds_per_step"].get<double>(), 0);
}

TEST_F(DoctorCommandTest, AProfileOfARankThatIsNotThereIsRefused) {
  ExpectRefusal("train --plan tensor.json --data corpus --profile ops.json --profile-rank 4",
                base::kExitWrongInput, {"--profile-rank", "4", "below 4"}, *folder_);
}

TEST_F(DoctorCommandTest, LinksAreHeldAgainstTheClusterFile) {
  const nlohmann::json json =
      RunForJson("profile --check --ranks 2 --cluster local-cpu --least-share 0", *folder_);
  EXPECT_EQ(json["num_ranks"], 2);
  ASSERT_EQ(json["collectives"].size(), 6U);
  ASSERT_EQ(json["pairs"].size(), 1U);
  for (const nlohmann::json& of : json["collectives"]) {
    EXPECT_TRUE(of["wrong"].is_null());
    EXPECT_NEAR(of["share"].get<double>(),
                of["bandwidth_bytes_per_s"].get<double>() /
                    of["expected_bandwidth_bytes_per_s"].get<double>(),
                1e-9);
    EXPECT_EQ(of["is_slow"], false);
  }
  // No link is a thousand times as fast as the file says.
  EXPECT_THAT(RunWell("profile --check --ranks 2 --cluster local-cpu --least-share 1000", *folder_),
              ContainsRegex("all_reduce .* slow"));
}

TEST_F(DoctorCommandTest, APlanWarnsOfWhatItCannotHelp) {
  const std::string estimate =
      "estimate --model gpt3-175b --cluster dgx-a100-80gb --devices 64 --tp 16 --pp 4 "
      "--global-batch-size 8";
  EXPECT_THAT(RunWell(estimate, *folder_),
              AllOf(HasSubstr("Warning: tensor-parallel groups of 16"), HasSubstr("2 nodes")));
  const nlohmann::json json = RunForJson(estimate, *folder_);
  std::vector<std::string> kinds;
  for (const nlohmann::json& warning : json["warnings"]) kinds.push_back(warning["kind"]);
  EXPECT_THAT(kinds, ::testing::Contains("tensor_across_nodes"));
}

}  // namespace
}  // namespace tessera::testing
