// `tessera config` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cost_model/spec/spec_json.h"
#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class ConfigCommandTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(ConfigCommandTest, ListShowsModelsAndClusters) {
  const std::string out = RunWell("config list", folder_);
  for (const char* word : {"gpt2-124m", "124.4M", "gpt3-175b", "local-cpu", "dgx-a100-80gb"}) {
    EXPECT_THAT(out, HasSubstr(word));
  }
  EXPECT_THAT(RunWell("config list models", folder_), Not(HasSubstr("dgx-a100-80gb")));
  EXPECT_THAT(RunWell("config list clusters", folder_), Not(HasSubstr("gpt2-124m")));
  const std::string runtimes = RunWell("config list runtimes", folder_);
  EXPECT_THAT(runtimes, HasSubstr("megatron-core"));
  EXPECT_THAT(runtimes, Not(HasSubstr("dgx-a100-80gb")));
}

TEST_F(ConfigCommandTest, ListedModelsHaveTheirPublishedNumberOfParameters) {
  // As the weights that their makers publish count.
  std::map<std::string, int64_t> published = {
      {"gpt2-124m", 124'439'808},      {"gpt2-1.5b", 1'557'611'200},   {"llama2-7b", 6'738'415'616},
      {"llama3-8b", 8'030'261'248},    {"llama3-70b", 70'553'706'496}, {"qwen2-0.5b", 494'032'768},
      {"mixtral-8x7b", 46'702'792'704}};
  const nlohmann::json list = RunForJson("config list models", folder_);
  for (const nlohmann::json& model : list["models"]) {
    const auto found = published.find(model["name"]);
    if (found == published.end()) continue;
    EXPECT_EQ(model["parameters"], found->second) << found->first;
    published.erase(found);
  }
  EXPECT_TRUE(published.empty()) << published.begin()->first << " is not listed";
}

TEST_F(ConfigCommandTest, ShowPrintsAFileThatReadsAsThePreset) {
  for (const std::string model : {"llama3-8b", "gpt2-124m", "mixtral-8x7b"}) {
    folder_.Write("shown.json", RunWell("config show " + model, folder_));
    EXPECT_EQ(spec::LoadModel(folder_.Path("shown.json")), spec::LoadModel(model));
  }
  folder_.Write("shown.json", RunWell("config show dgx-a100-80gb", folder_));
  EXPECT_EQ(spec::WriteCluster(spec::LoadCluster(folder_.Path("shown.json"))),
            spec::WriteCluster(spec::LoadCluster("dgx-a100-80gb")));
}

TEST_F(ConfigCommandTest, RuntimesAreListedAndShown) {
  const nlohmann::json list = RunForJson("config list runtimes", folder_);
  ASSERT_EQ(list["runtimes"].size(), spec::ListPresets("runtimes").size());
  for (const nlohmann::json& runtime : list["runtimes"]) {
    const std::string name = runtime["name"];
    EXPECT_EQ(nlohmann::json::parse(RunWell("config show " + name, folder_)), runtime) << name;
  }
}

TEST_F(ConfigCommandTest, ImportWritesAFileOfOurs) {
  folder_.Write("arguments.json", R"({"num_layers": 4, "hidden_size": 64,
      "num_attention_heads": 4, "seq_length": 32, "vocab_size": 100})");
  EXPECT_THAT(RunWell("config import arguments.json --out model.json --quiet", folder_),
              HasSubstr("model.json: arguments, "));
  EXPECT_EQ(spec::LoadModel(folder_.Path("model.json")),
            spec::LoadModel(folder_.Path("arguments.json")));
}

TEST_F(ConfigCommandTest, ImportReadsWhatHuggingFaceWrites) {
  folder_.Write("llama/config.json", R"({"architectures": ["LlamaForCausalLM"],
      "model_type": "llama", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 176,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 128, "rms_norm_eps": 1e-06, "rope_theta": 500000.0,
      "tie_word_embeddings": true, "vocab_size": 1000, "torch_dtype": "bfloat16"})");
  const auto model = nlohmann::json::parse(RunWell("config import llama", folder_));
  EXPECT_EQ(model["norm"], "rmsnorm");
  EXPECT_EQ(model["position"], "rope");
  EXPECT_EQ(model["activation"], "swiglu");
  EXPECT_EQ(model["num_layers"], 3);
  EXPECT_EQ(model["num_key_value_heads"], 2);
  EXPECT_EQ(model["head_dim"], 16);
  EXPECT_EQ(model["ffn_hidden_size"], 176);
  EXPECT_EQ(model["tied_embeddings"], true);
}

TEST_F(ConfigCommandTest, WrongInputIsOneLineAndExitCodeTwo) {
  folder_.Write("typo.json", R"({"num_layers": 4, "hiden_size": 64})");
  ExpectRefusal("config show llama3-9b", base::kExitWrongInput, {"llama3-9b", "llama3-8b"},
                folder_);
  ExpectRefusal("config import typo.json", base::kExitWrongInput, {"typo.json", "hiden_size"},
                folder_);
  ExpectRefusal("config import no/such/file", base::kExitWrongInput, {"no/such/file"}, folder_);
  ExpectRefusal("config list --format xml", base::kExitWrongInput, {"--format", "xml"}, folder_);
  ExpectRefusal("config", base::kExitWrongInput, {"subcommand"}, folder_);
}

}  // namespace
}  // namespace tessera::testing
