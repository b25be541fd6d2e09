// `tessera config` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr
};

Outcome RunConfig(const std::string& arguments) {
  Outcome outcome;
  const std::string command =
      std::string(TESSERA_BIN_DIR) + "/tessera config " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), count);
  }
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class ConfigCommandTest : public ::testing::Test {
 protected:
  ConfigCommandTest()
      : folder_(std::filesystem::path(::testing::TempDir()) / "tessera_config_command") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ConfigCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

TEST_F(ConfigCommandTest, ListShowsModelsAndClusters) {
  const Outcome outcome = RunConfig("list");
  EXPECT_EQ(outcome.exit_code, base::kExitDone);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("gpt2-124m"), HasSubstr("124.4M"), HasSubstr("dgx-a100-80gb")));
}

TEST_F(ConfigCommandTest, ListAsJsonHoldsTheNumberOfParameters) {
  const Outcome outcome = RunConfig("list models --format json");
  EXPECT_EQ(outcome.exit_code, base::kExitDone);
  // GPT-2 124M: 50257 * 768 + 1024 * 768 + 12 * (12 * 768^2 + 13 * 768) + 2 * 768.
  EXPECT_THAT(outcome.output, HasSubstr("\"parameters\": 124439808"));
}

TEST_F(ConfigCommandTest, ShowPrintsAFileThatReadsAsThePreset) {
  const Outcome outcome = RunConfig("show llama3-8b");
  EXPECT_EQ(outcome.exit_code, base::kExitDone);
  EXPECT_EQ(spec::LoadModel(Write("shown.json", outcome.output)), spec::LoadModel("llama3-8b"));
}

TEST_F(ConfigCommandTest, ImportWritesAFileOfOurs) {
  const std::string arguments = Write("arguments.json", R"({"num_layers": 4, "hidden_size": 64,
      "num_attention_heads": 4, "seq_length": 32, "vocab_size": 100})");
  const std::string out = Path("model.json");
  EXPECT_EQ(RunConfig("import " + arguments + " --out " + out + " --quiet").output, "");
  spec::ModelSpec expected = spec::LoadModel(arguments);
  EXPECT_EQ(spec::LoadModel(out), expected);
}

TEST_F(ConfigCommandTest, WrongInputIsOneLineAndExitCodeTwo) {
  const std::string typo = Write("typo.json", R"({"num_layers": 4, "hiden_size": 64})");
  for (const std::string& arguments :
       {std::string("show llama3-9b"), "import " + typo, std::string("import /no/such/file"),
        std::string("list --format xml"), std::string()}) {
    const Outcome outcome = RunConfig(arguments);
    EXPECT_EQ(outcome.exit_code, base::kExitWrongInput) << arguments;
    EXPECT_THAT(outcome.output, StartsWith("tessera: error: ")) << arguments;
    EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << outcome.output;
  }
}

}  // namespace
}  // namespace tessera
