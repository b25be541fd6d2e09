#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/integration/command_runner.h"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRow =
    R"({"id": "mine", "source": "my log", "framework": "Megatron-LM", "model": {"num_layers": 24, )"
    R"("hidden_size": 2048, "num_attention_heads": 16, "ffn_hidden_size": 8192, )"
    R"("vocab_size": 51200, "seq_length": 2048}, "hardware": {"gpu": "A100-80GB-SXM", "gpus": 8}, )"
    R"("layout": {"tp": 2, "dp": 4, "micro_batch_size": 2, "global_batch_size": 64, )"
    R"("precision": "bf16", "recompute": "full", "zero_stage": 1}, )"
    R"("measured": {"step_time_s": 1.5}})";

TEST(ValidateCommandTest, ScoresRowsOfTheUsersOwn) {
  const TemporaryFolder folder;
  folder.Write("mine.jsonl", std::string(kRow) + "\n");
  const CommandResult result =
      RunCommand("validate --rows mine.jsonl --format json --html page.html", folder);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["rows"].size(), 1u);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["id"], "mine");
  EXPECT_GT(row["predicted_step_time_s"], 0);
  EXPECT_NEAR(row["step_time_error"].get<double>(),
              row["predicted_step_time_s"].get<double>() / 1.5 - 1, 1e-9);
  EXPECT_TRUE(row["fits"]);
  EXPECT_THAT(folder.Read("page.html"), AllOf(HasSubstr("mine"), HasSubstr("</html>")));
}

TEST(ValidateCommandTest, ThePublishedRowsComeAlong) {
  const TemporaryFolder folder;
  const CommandResult result = RunCommand("validate --source vtrain --worst 3", folder);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("vTrain"), HasSubstr("worst step times"), HasSubstr("all rows")));
}

TEST(ValidateCommandTest, AWrongRowEndsWithItsLineAndExitCode2) {
  const TemporaryFolder folder;
  folder.Write("mine.jsonl", std::string(kRow) + "\n{\"id\": 3}\n");
  const CommandResult result = RunCommand("validate --rows mine.jsonl", folder);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.ErrorLines(),
              ElementsAre("mine.jsonl: line 2: /id: found 3, expected a text"));
}

TEST(ValidateCommandTest, ASourceWithoutRowsIsAnError) {
  const TemporaryFolder folder;
  const CommandResult result = RunCommand("validate --source nobody", folder);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.ErrorLines(), ElementsAre(HasSubstr("--source")));
}

}  // namespace
}  // namespace tessera::testing
