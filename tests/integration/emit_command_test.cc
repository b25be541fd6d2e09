// Plans for other programs, by the commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class EmitCommandTest : public ::testing::Test {
 protected:
  // An estimate's JSON without what names the model's file.
  nlohmann::json EstimateOf(const std::string& flags) const {
    nlohmann::json row = RunForJson("estimate " + flags, folder_);
    row.erase("model");
    row.erase("notes");
    return row;
  }
  // Writes the layout's arguments and reads them back as the model: the same estimate.
  void ExpectSameEstimate(const std::string& machines, const std::string& layout) const {
    SCOPED_TRACE(layout);
    RunWell("estimate " + machines + " " + layout + " --emit megatron --emit-out args.txt",
            folder_);
    const std::string cluster = machines.substr(machines.find("--cluster"));
    EXPECT_EQ(EstimateOf("--model args.txt " + cluster), EstimateOf(machines + " " + layout));
  }

  TemporaryFolder folder_;
};

constexpr char kGpt[] = "--model gpt3-13b --cluster dgx-a100-80gb --devices 64";
constexpr char kLlama[] = "--model llama3-70b --cluster dgx-h100 --devices 64";

TEST_F(EmitCommandTest, MegatronsArgumentsReadBackGiveTheSameEstimate) {
  ExpectSameEstimate(kGpt, "--tp 4 --pp 2 --global-batch-size 256 --recompute selective");
  ExpectSameEstimate(kGpt,
                     "--tp 8 --sequence-parallel true --zero-stage 0 --recompute full "
                     "--global-batch-size 64 --micro-batch-size 2");
  ExpectSameEstimate(kGpt,
                     "--tp 4 --pp 4 --vpp 2 --schedule interleaved --attention unfused "
                     "--global-batch-size 128 --sequence-parallel true");
  ExpectSameEstimate(kLlama,
                     "--tp 8 --pp 8 --global-batch-size 64 --precision fp8 "
                     "--layers-per-virtual-stage 9,10,10,10,10,10,11,10 "
                     "--sequence-parallel true --recompute full");
}

TEST_F(EmitCommandTest, SoDoThoseOfExpertsLatentAttentionAndContextParallelism) {
  ExpectSameEstimate("--model mixtral-8x7b --cluster dgx-h100 --devices 64",
                     "--tp 2 --ep 8 --global-batch-size 256 --seq-length 4096 "
                     "--sequence-parallel true");
  ExpectSameEstimate("--model deepseek-v3 --cluster dgx-h100 --devices 1024",
                     "--tp 2 --pp 16 --ep 32 --global-batch-size 4096 --seq-length 4096 "
                     "--sequence-parallel true --recompute full");
  ExpectSameEstimate("--model llama3-8b --cluster dgx-h100 --devices 64",
                     "--tp 2 --cp 4 --global-batch-size 64 --sequence-parallel true");
}

TEST_F(EmitCommandTest, PlanPrintsTheArgumentsOfItsChoiceInPlaceOfTheTable) {
  const std::string flags = std::string(kGpt) + " --global-batch-size 256 --quiet";
  const std::string text = RunWell("plan " + flags + " --emit megatron", folder_);
  EXPECT_TRUE(text.starts_with("# Arguments of Megatron-LM"));
  EXPECT_THAT(text, HasSubstr("\n--num-layers 40\n"));
  EXPECT_THAT(text, Not(HasSubstr("MFU  ")));  // the table's
  folder_.Write("args.txt", text);
  const nlohmann::json read = EstimateOf("--model args.txt --cluster dgx-a100-80gb --devices 64");
  const nlohmann::json planned = RunForJson("plan " + flags, folder_)["rows"][0];
  EXPECT_EQ(read["step_time_s"], planned["step_time_s"]);
  EXPECT_EQ(read["memory"]["peak_bytes"], planned["memory"]["peak_bytes"]);
  EXPECT_EQ(read["layout"], planned["layout"]);
}

TEST_F(EmitCommandTest, ThePlansFileAndTheTableStayBesideAFile) {
  const std::string out =
      RunWell(std::string("estimate ") + kLlama +
                  " --tp 8 --pp 8 --sequence-parallel true --global-batch-size 64 --out plan.json "
                  "--emit slurm --emit-out job.sh",
              folder_);
  EXPECT_THAT(out, HasSubstr("step time"));
  EXPECT_THAT(folder_.Read("job.sh"), HasSubstr("#SBATCH --nodes=8"));
  EXPECT_EQ(RunWell("config emit --plan plan.json --for slurm --quiet", folder_),
            folder_.Read("job.sh"));
  const std::string check = "bash -n " + folder_.Path("job.sh");
  EXPECT_EQ(std::system(check.c_str()), 0);
}

TEST_F(EmitCommandTest, DeepspeedIsTwoFiles) {
  RunWell(std::string("estimate ") + kGpt +
              " --tp 4 --global-batch-size 256 --emit deepspeed --emit-out ds_config.json",
          folder_);
  const auto config = nlohmann::json::parse(folder_.Read("ds_config.json"));
  EXPECT_EQ(config["train_batch_size"], 256);
  EXPECT_THAT(folder_.Read("ds_config.args.txt"), HasSubstr("--deepspeed_config ds_config.json"));
}

TEST_F(EmitCommandTest, JsonHoldsFilesAndWarnings) {
  const nlohmann::json document =
      RunForJson(std::string("estimate ") + kLlama +
                     " --tp 8 --sequence-parallel true --global-batch-size 64 --recompute full "
                     "--emit torchtitan",
                 folder_);
  EXPECT_EQ(document["emit"]["target"], "torchtitan");
  EXPECT_THAT(document["emit"]["files"][0]["text"], HasSubstr("[parallelism]"));
  EXPECT_THAT(document["emit"]["warnings"][0], HasSubstr("no ZeRO 1"));
}

TEST_F(EmitCommandTest, WarningsAreToldOnStderr) {
  const CommandResult result =
      RunCommand(std::string("estimate ") + kLlama +
                     " --tp 8 --sequence-parallel true --global-batch-size 64 --recompute full "
                     "--emit torchtitan",
                 folder_);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("warning: torchtitan: torchtitan has no ZeRO 1"));
}

TEST_F(EmitCommandTest, WrongUseIsOneLine) {
  ExpectRefusal(std::string("plan ") + kGpt + " --emit jax", base::kExitWrongInput,
                {"--emit", "jax"}, folder_);
  ExpectRefusal(std::string("plan ") + kGpt + " --emit-out file", base::kExitWrongInput,
                {"--emit-out", "--emit"}, folder_);
  ExpectRefusal("config emit --plan none.json --for slurm", base::kExitWrongInput, {"none.json"},
                folder_);
  ExpectRefusal("config emit --for slurm", base::kExitWrongInput, {"--plan"}, folder_);
  ExpectRefusal(std::string("estimate ") + kGpt +
                    " --tp 8 --pp 2 --schedule gpipe --global-batch-size 256 --recompute full "
                    "--sequence-parallel true --emit megatron",
                base::kExitInfeasible, {"megatron cannot run this layout", "gpipe"}, folder_);
  ExpectRefusal(
      std::string("estimate ") + kGpt + " --tp 4 --global-batch-size 256 --emit torchtitan",
      base::kExitInfeasible, {"torchtitan", "no model of the form"}, folder_);
}

}  // namespace
}  // namespace tessera::testing
