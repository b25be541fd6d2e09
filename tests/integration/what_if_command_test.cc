// What `tessera what-if` prints and writes, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSmallSweep[] =
    "what-if --model gpt3-1.3b --clusters dgx-a100-80gb,dgx-h100 --devices 8,16,32 "
    "--global-batch-sizes 64,128 ";

class WhatIfCommandTest : public ::testing::Test {
 protected:
  void Refused(const std::string& flags, const std::vector<std::string>& words) const {
    ExpectRefusal(kSmallSweep + flags, base::kExitWrongInput, words, folder_);
  }
  TemporaryFolder folder_;
};

// Cells of comma-separated text without quoted commas before the columns asked for.
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    std::string cell;
    bool is_quoted = false;
    for (const char character : line) {
      if (character == '"') is_quoted = !is_quoted;
      if ((character == ',' && !is_quoted) || character == '\r') {
        row.push_back(std::move(cell));
        cell.clear();
      } else {
        cell += character;
      }
    }
  }
  return rows;
}

TEST_F(WhatIfCommandTest, HasAPointForEachCombinationAndTheIdentitiesHold) {
  const nlohmann::json answer = RunForJson(
      std::string(kSmallSweep) + "--tokens 300B --price dgx-a100-80gb=1.5,dgx-h100=2.5", folder_);
  ASSERT_EQ(answer["points"].size(), 12U);
  int id = 0;
  for (const char* cluster : {"dgx-a100-80gb", "dgx-h100"}) {
    for (const int num_devices : {8, 16, 32}) {
      for (const int batch : {64, 128}) {
        const nlohmann::json& point = answer["points"][id];
        SCOPED_TRACE(id);
        EXPECT_EQ(point["id"], id++);
        EXPECT_EQ(point["cluster"], cluster);
        EXPECT_EQ(point["devices"], num_devices);
        EXPECT_EQ(point["global_batch_size"], batch);
        ASSERT_EQ(point["feasible"], true);
        double sum_s = 0;
        for (const auto& [name, seconds] : point["time"].items()) sum_s += seconds.get<double>();
        const double step_s = point["step_time_s"];
        EXPECT_NEAR(sum_s, step_s, 1e-9 * step_s);
        const nlohmann::json& run = point["run"];
        const double days = run["days"];
        const double hours = run["device_hours"];
        EXPECT_NEAR(days * num_devices * 24, hours, 1e-9 * hours);
        EXPECT_NEAR(days * 86400 * run["effective_tokens_per_s"].get<double>(), 300e9, 1e3);
        EXPECT_NEAR(point["tokens_per_s"].get<double>() * run["goodput_share"].get<double>(),
                    run["effective_tokens_per_s"].get<double>(), 1e-3);
        const double price = std::string(cluster) == "dgx-h100" ? 2.5 : 1.5;
        EXPECT_NEAR(run["cost_usd"].get<double>(), price * hours, 1e-6 * hours);
      }
    }
  }
  EXPECT_FALSE(answer["frontier"].empty());
  EXPECT_FALSE(answer["scaling"].empty());
  EXPECT_FALSE(answer["formulas"].empty());
  for (const nlohmann::json& assumption : answer["assumptions"]) {
    EXPECT_THAT(assumption["tag"].get<std::string>(),
                ::testing::AnyOf("spec", "measured", "fitted", "assumed"));
    EXPECT_NE(assumption["source"], "");
  }
}

TEST_F(WhatIfCommandTest, TellsTheCommandAsAShellTakesIt) {
  const nlohmann::json document = RunForJson(
      "what-if --model gpt3-1.3b --clusters dgx-h100 --devices 8 --global-batch-size 64 "
      "--no-margins --csv it's.csv",
      folder_);
  EXPECT_THAT(document["command"].get<std::string>(),
              ::testing::AllOf(::testing::StartsWith("tessera what-if --model gpt3-1.3b"),
                               ::testing::HasSubstr(R"(--csv 'it'\''s.csv')")));
}

TEST_F(WhatIfCommandTest, AgreesWithPlan) {
  const nlohmann::json sweep = RunForJson(
      "what-if --model gpt3-1.3b --clusters dgx-a100-80gb --devices 16 --global-batch-size 64 "
      "--no-margins",
      folder_);
  const nlohmann::json plan = RunForJson(
      "plan --model gpt3-1.3b --cluster dgx-a100-80gb --devices 16 --global-batch-size 64",
      folder_);
  EXPECT_EQ(sweep["points"][0]["layout"], plan["rows"][0]["layout"]);
  EXPECT_EQ(sweep["points"][0]["step_time_s"], plan["rows"][0]["step_time_s"]);
}

TEST_F(WhatIfCommandTest, CsvAndJsonFilesHoldTheSameNumbers) {
  const std::string out =
      RunWell(std::string(kSmallSweep) + "--tokens 300B --csv points.csv --json all.json", folder_);
  EXPECT_THAT(out, HasSubstr("gpt3-1.3b on dgx-h100"));
  EXPECT_THAT(out, HasSubstr("█"));
  const auto document = nlohmann::json::parse(folder_.Read("all.json"));
  const auto rows = ReadCsv(folder_.Read("points.csv"));
  ASSERT_EQ(rows.size(), 13U);
  const auto column = [&](const std::string& name) {
    const auto at = std::find(rows[0].begin(), rows[0].end(), name);
    EXPECT_NE(at, rows[0].end()) << name;
    return static_cast<size_t>(at - rows[0].begin());
  };
  for (size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), rows[0].size());
    const nlohmann::json& point = document["points"][i - 1];
    EXPECT_EQ(std::stod(rows[i][column("step_time_s")]), point["step_time_s"]);
    EXPECT_EQ(std::stod(rows[i][column("mfu_share")]), point["mfu"]);
    EXPECT_EQ(std::stod(rows[i][column("days")]), point["run"]["days"]);
    EXPECT_EQ(std::stod(rows[i][column("device_hours")]), point["run"]["device_hours"]);
  }
}

TEST_F(WhatIfCommandTest, TheAnswerToADeadlineHoldsWhenPlannedAloneAndWithOneNodeFewer) {
  const std::string job = " --model gpt3-1.3b --global-batch-size 512 ";
  const nlohmann::json answer = RunForJson(
      "what-if --clusters dgx-a100-80gb --tokens 300B --within 13d --no-margins" + job, folder_);
  ASSERT_EQ(answer["answer"]["feasible"], true);
  const nlohmann::json& point = answer["points"][answer["answer"]["point"].get<size_t>()];
  const int num_devices = point["devices"];
  ASSERT_GT(num_devices, 8);
  EXPECT_LE(point["run"]["days"], 13);
  const double share = point["run"]["goodput_share"];
  for (const int fewer : {0, 1, 8}) {
    const CommandResult result =
        RunCommand("plan --cluster dgx-a100-80gb --format json --devices " +
                       std::to_string(num_devices - fewer) + job,
                   folder_);
    if (fewer > 0 && result.exit_code == 3) continue;  // no layout fits
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const double rate = nlohmann::json::parse(result.out)["rows"][0]["tokens_per_s"];
    const double days = 300e9 / (rate * share) / 86400;
    if (fewer == 0) {
      EXPECT_LE(days, 13);
    } else {
      EXPECT_GT(days, 13) << fewer;
    }
  }
}

TEST_F(WhatIfCommandTest, ABudgetIsAskedOfAllNumbersOfNodesWhereNoneIsGiven) {
  const nlohmann::json answer = RunForJson(
      "what-if --model gpt3-1.3b --clusters dgx-h100 --global-batch-size 64 --tokens 300B --budget "
      "7k --price 3 --no-margins",
      folder_);
  ASSERT_EQ(answer["points"].size(), 12U);  // 8 to 16,384 devices
  ASSERT_EQ(answer["answer"]["feasible"], true);
  const nlohmann::json& chosen = answer["points"][answer["answer"]["point"].get<size_t>()];
  EXPECT_LE(chosen["run"]["cost_usd"], 7000);
  for (const nlohmann::json& point : answer["points"]) {
    if (!point.contains("run") || point["run"]["days"] >= chosen["run"]["days"]) continue;
    EXPECT_GT(point["run"]["cost_usd"], 7000);
  }
}

TEST_F(WhatIfCommandTest, ImpossibleQuestionsAreAnswersWithAWayOut) {
  struct Case {
    const char* flags;
    const char* reason;
    const char* unlock;
  };
  for (const Case& test :
       {Case{"--devices 8,16 --tokens 300B --within 2d", "takes", "more time"},
        Case{"--devices 8,16 --tokens 300B --budget 100 --price 2", "costs", "budget of"}}) {
    const CommandResult result =
        RunCommand(std::string("what-if --model gpt3-1.3b --clusters dgx-h100 --global-batch-size "
                               "64 --no-margins --format json ") +
                       test.flags,
                   folder_);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    ASSERT_EQ(result.ErrorLines().size(), 1U);
    EXPECT_THAT(result.ErrorLines()[0], HasSubstr(test.reason));
    const auto answer = nlohmann::json::parse(result.out)["answer"];
    EXPECT_EQ(answer["feasible"], false);
    EXPECT_THAT(answer["unlock"].dump(), HasSubstr(test.unlock));
  }
}

TEST_F(WhatIfCommandTest, AModelThatNeverFitsIsToldWithWhatWouldDo) {
  const CommandResult result = RunCommand(
      "what-if --model gpt3-175b --clusters dgx-h100 --devices 8 --global-batch-size 64 --tokens "
      "300B --within 1000d --no-margins --format json",
      folder_);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("memory"));
  const auto answer = nlohmann::json::parse(result.out)["answer"];
  EXPECT_THAT(answer["unlock"].dump(), HasSubstr("devices"));
}

TEST_F(WhatIfCommandTest, ChangedClustersComeBesideTheClusterAsItIs) {
  const nlohmann::json answer = RunForJson(
      "what-if --model gpt3-1.3b --clusters dgx-a100-80gb --devices 32 --global-batch-size 64 "
      "--no-margins --inter-node-bandwidths 0.25x,400Gb/s --memory-gib 40",
      folder_);
  ASSERT_EQ(answer["points"].size(), 3U);
  EXPECT_EQ(answer["points"][0]["variant"], "");
  EXPECT_THAT(answer["points"][1]["variant"].get<std::string>(),
              HasSubstr("0.25x bandwidth between nodes, 40.0 GiB memory of a device"));
  EXPECT_LE(answer["points"][0]["step_time_s"], answer["points"][1]["step_time_s"]);
  EXPECT_LE(answer["points"][2]["step_time_s"], answer["points"][1]["step_time_s"]);
}

TEST_F(WhatIfCommandTest, WrongInputIsRefusedInOneLineBeforeAnythingIsWritten) {
  ExpectRefusal("what-if --clusters dgx-h100", base::kExitWrongInput, {"--model"}, folder_);
  ExpectRefusal("what-if --model gpt3-1.3b", base::kExitWrongInput, {"--clusters"}, folder_);
  ExpectRefusal("what-if --model gpt3-1.3b --clusters dgx-h100,dgx-h1000 --csv points.csv",
                base::kExitWrongInput, {"dgx-h1000"}, folder_);
  ExpectRefusal("what-if --model gpt3-1.3b,gtp3 --clusters dgx-h100", base::kExitWrongInput,
                {"gtp3"}, folder_);
  ExpectRefusal("what-if --model gpt3-1.3b --clusters dgx-h100 --devices 8,many",
                base::kExitWrongInput, {"--devices", "many"}, folder_);
  ExpectRefusal("what-if --model gpt3-1.3b --clusters dgx-h100 --devices 8,0",
                base::kExitWrongInput, {"--devices", "0"}, folder_);
  Refused("--price -2 --tokens 1T", {"--price", "-2"});
  Refused("--price dgx-b200=2 --tokens 1T", {"--price", "dgx-b200", "dgx-h100"});
  Refused("--price dgx-h100=cheap", {"--price", "cheap"});
  Refused("--tokens many", {"--tokens", "many"});
  Refused("--tokens -1T", {"--tokens", "-1T"});
  Refused("--within 60d", {"--within", "--tokens"});
  Refused("--tokens 1T --within 60", {"--within", "60", "60d"});
  Refused("--tokens 1T --mtbf 0h", {"--mtbf", "0h"});
  Refused("--tokens 1T --pue 0.5", {"--pue", "0.5"});
  Refused("--inter-node-bandwidths 50", {"--inter-node-bandwidths", "50"});
  Refused("--nics-per-node 2.5", {"--nics-per-node", "2.5"});
  Refused("--device-speeds 900", {"--device-speeds", "2x"});
  Refused("--jobs 0", {"--jobs", "0"});
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("points.csv")));
}

TEST_F(WhatIfCommandTest, AnUnwritablePathIsToldBeforeTheSweepAndLeavesNothing) {
  ExpectRefusal(std::string(kSmallSweep) + "--json all.json --csv no/such/folder/points.csv",
                base::kExitFailure, {"--csv", "no/such/folder"}, folder_);
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("all.json")));
  std::filesystem::create_directory(folder_.Path("folder"));
  Refused("--csv folder", {"--csv", "folder"});
}

TEST_F(WhatIfCommandTest, ComparesPlansClustersAndMeasurementsTermByTerm) {
  RunWell(
      "plan --model gpt3-1.3b --cluster dgx-h100 --devices 8 --global-batch-size 64 --out "
      "plan.json",
      folder_);
  folder_.Write("metrics.jsonl",
                "{\"step\":1,\"loss\":5,\"step_time_s\":9,\"forward_s\":1}\n"
                "{\"step\":2,\"loss\":5,\"step_time_s\":2,\"forward_s\":1}\n");
  for (const char* flags :
       {"--compare plan.json,metrics.jsonl",
        "--compare dgx-h100,dgx-a100-80gb --model gpt3-1.3b --devices 8 --global-batch-size 64",
        "--compare plan.json,dgx-h100 --model gpt3-1.3b --devices 8 --global-batch-size 64"}) {
    SCOPED_TRACE(flags);
    const nlohmann::json comparison =
        RunForJson(std::string("what-if ") + flags, folder_)["comparison"];
    double sum_s = 0;
    for (const nlohmann::json& term : comparison["terms"]) {
      EXPECT_EQ(term["difference"], term["b"].get<double>() - term["a"].get<double>());
      sum_s += term["difference"].get<double>();
    }
    const double step_s =
        comparison["b"]["step_time_s"].get<double>() - comparison["a"]["step_time_s"].get<double>();
    EXPECT_NEAR(sum_s, step_s, 1e-9);
    if (std::string(flags).find("plan.json,dgx") != std::string::npos) {
      EXPECT_NEAR(step_s, 0, 1e-12);  // the plan is the best layout there
    }
  }
  const auto refused = [&](const char* flags, const std::vector<std::string>& words) {
    ExpectRefusal(std::string("what-if ") + flags, base::kExitWrongInput, words, folder_);
  };
  refused("--compare plan.json", {"--compare", "two"});
  refused("--compare plan.json,nothing.json", {"nothing.json"});
  refused("--compare plan.json,dgx-h100", {"--model"});
  folder_.Write("other.json", "{\"a\": 1}");
  refused("--compare plan.json,other.json", {"other.json"});
}

TEST_F(WhatIfCommandTest, CtrlCKeepsThePointsThatAreDone) {
  RunningCommand command(
      "what-if --model gpt3-175b,llama3-405b --clusters dgx-a100-80gb,dgx-h100,dgx-h200 --devices "
      "1024,2048,3072,4096,5120,6144,8192,12288 --global-batch-sizes 512,1024,2048,4096 "
      "--seq-lengths 1024,2048 --format json --csv points.csv",
      folder_);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  command.Interrupt();
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, base::kExitFailure) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cancelled"));
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document["complete"], false);
  EXPECT_LT(document["points"].size(), 384U);
  EXPECT_EQ(ReadCsv(folder_.Read("points.csv")).size(), document["points"].size() + 1);
  for (const nlohmann::json& point : document["points"]) {
    EXPECT_EQ(point["feasible"], point.contains("step_time_s"));
  }
}

}  // namespace
}  // namespace tessera::testing
