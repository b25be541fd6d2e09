#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "cost_model/spec/parameter_list.h"
#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

TEST(PresetsTest, ModelsOfTheFamiliesAreThere) {
  EXPECT_THAT(ListPresets("models"),
              IsSupersetOf({"gpt2-124m", "gpt2-1.5b", "gpt3-175b", "megatron-1.7b", "megatron-22b",
                            "megatron-1t", "turing-530b", "llama2-7b", "llama3-8b", "llama3-405b",
                            "qwen2-7b", "mistral-7b", "mixtral-8x7b", "nano-gpt"}));
  EXPECT_THAT(
      ListPresets("clusters"),
      IsSupersetOf({"local-cpu", "dgx1-v100", "dgx2-v100", "dgx-a100-40gb", "dgx-a100-80gb",
                    "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72", "hgx-a800-80gb", "hgx-h800",
                    "h100-96gb-500w", "dgx-b300", "gb300-nvl72", "jean-zay-a100"}));
}

TEST(PresetsTest, EveryModelLoadsUnderItsOwnNameAndNamesItsSource) {
  for (const std::string& name : ListPresets("models")) {
    const ModelSpec model = LoadModel(name);
    EXPECT_EQ(model.name, name);
    std::ifstream file(PresetPath("models", name));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text, HasSubstr("\"source\": \"")) << name;
  }
}

TEST(PresetsTest, EveryClusterLoadsWithASourceForEachNumber) {
  for (const std::string& name : ListPresets("clusters")) {
    const ClusterSpec cluster = LoadCluster(name);
    EXPECT_EQ(cluster.name, name);
    for (const char* number :
         {"/device/memory_bytes", "/device/memory_bandwidth_bytes_per_s", "/devices_per_node",
          "/device/memory_efficiency_by_bytes", "/nics_per_node", "/device/launch_overhead_s",
          "/intra_node/bandwidth_bytes_per_s", "/intra_node/latency_s", "/intra_node/efficiency",
          "/inter_node/bandwidth_bytes_per_s", "/inter_node/latency_s"}) {
      EXPECT_EQ(cluster.sources.count(number), 1u) << name << number;
    }
    const std::string products = cluster.device.kernels ? "/device/kernels/tile_load_cost"
                                                        : "/device/matmul_efficiency_by_flops";
    EXPECT_EQ(cluster.sources.count(products), 1u) << name << products;
    for (const auto& [type, peak] : cluster.device.peak_flops_per_s) {
      const std::string pointer = "/device/peak_flops_per_s/" + std::string(base::ToString(type));
      EXPECT_EQ(cluster.sources.count(pointer), 1u) << name << pointer;
    }
  }
}

TEST(PresetsTest, EveryTrainingFileLoads) {
  for (const std::string& name : ListPresets("training")) {
    TrainingSpec training;
    EXPECT_EQ(ConfigErrorOf([&] { LoadHyperparameters(name, training); }), "") << name;
    EXPECT_GT(training.sequence_length, 0) << name;
  }
}

// Published numbers of parameters, in the digits that were published.
TEST(PresetsTest, ModelsHaveTheirPublishedSizes) {
  const struct {
    const char* name;
    double billions;
    double half_digit;
  } published[] = {{"gpt2-124m", 0.124, 0.0005},
                   {"gpt2-355m", 0.355, 0.0005},
                   {"gpt2-774m", 0.774, 0.0005},
                   {"gpt2-1.5b", 1.558, 0.0005},
                   {"gpt3-6.7b", 6.7, 0.05},
                   {"gpt3-13b", 13.0, 0.15},
                   {"gpt3-175b", 175, 0.5},
                   {"megatron-1.7b", 1.7, 0.05},
                   {"megatron-3.6b", 3.6, 0.05},
                   {"megatron-7.5b", 7.5, 0.05},
                   {"megatron-18.4b", 18.4, 0.05},
                   {"megatron-39.1b", 39.1, 0.05},
                   {"megatron-76.1b", 76.1, 0.05},
                   {"megatron-145.6b", 145.6, 0.05},
                   {"megatron-310.1b", 310.1, 0.05},
                   {"megatron-529.6b", 529.6, 0.05},
                   {"megatron-1t", 1008.0, 0.05},
                   {"megatron-22b", 22, 0.5},
                   {"turing-530b", 530, 0.5},
                   {"llama2-7b", 6.738, 0.0005},
                   {"llama2-13b", 13.016, 0.0005},
                   {"llama2-70b", 68.977, 0.0005},
                   {"llama3-8b", 8.030, 0.0005},
                   {"llama3-70b", 70.554, 0.0005},
                   {"llama3-405b", 405.85, 0.005},
                   {"llama3.2-1b", 1.236, 0.0005},
                   {"qwen2-0.5b", 0.494, 0.0005},
                   {"qwen2-7b", 7.616, 0.0005},
                   {"qwen2-72b", 72.706, 0.0005},
                   {"mistral-7b", 7.248, 0.0005},
                   {"mixtral-8x7b", 46.703, 0.0005},
                   {"mixtral-8x22b", 140.62, 0.015},
                   {"deepseek-v2-lite", 15.7, 0.05},
                   {"deepseek-v2", 236, 0.5},
                   {"kimi-k2", 1000, 50},
                   {"qwen3-30b-a3b", 30.5, 0.05},
                   {"qwen3-235b-a22b", 235, 0.5},
                   {"qwen1.5-moe-a2.7b", 14.3, 0.05},
                   {"gpt-oss-20b", 20.91, 0.006},
                   {"gpt-oss-120b", 116.83, 0.006},
                   {"nemotron4-15b", 15.6, 0.05},
                   {"nemotron4-340b", 341.0, 0.05},
                   {"llama3.2-3b", 3.213, 0.0005},
                   {"grok-1", 314, 2}};
  for (const auto& row : published) {
    EXPECT_NEAR(static_cast<double>(NumParameters(LoadModel(row.name))) / 1e9, row.billions,
                row.half_digit)
        << row.name;
  }
}

// The parameters that one token meets, by the models' reports and cards.
TEST(PresetsTest, MixturesHaveTheirPublishedActiveSizes) {
  const struct {
    const char* name;
    double billions;
    double half_digit;
  } published[] = {{"mixtral-8x7b", 12.9, 0.05},    {"mixtral-8x22b", 39, 0.5},
                   {"deepseek-v2-lite", 2.4, 0.35}, {"deepseek-v2", 21, 0.5},
                   {"kimi-k2", 32.6, 0.5},          {"qwen3-30b-a3b", 3.3, 0.06},
                   {"qwen3-235b-a22b", 22, 0.5},    {"qwen1.5-moe-a2.7b", 2.7, 0.05}};
  for (const auto& row : published) {
    EXPECT_NEAR(static_cast<double>(NumActiveParameters(LoadModel(row.name))) / 1e9, row.billions,
                row.half_digit)
        << row.name;
  }
  // gpt-oss counts its unembedding and not its embedding.
  for (const auto& [name, billions] : {std::pair{"gpt-oss-20b", 3.61}, {"gpt-oss-120b", 5.13}}) {
    const ModelSpec model = LoadModel(name);
    const int64_t embedding = model.vocab_size * model.hidden_size;
    EXPECT_NEAR(static_cast<double>(NumActiveParameters(model) - embedding) / 1e9, billions, 0.006)
        << name;
  }
}

// arXiv:2412.19437, section 4.2: 671B in all, 37B of them for a token; the model card counts 14B of
// the multi-token module, its embedding and head among them.
TEST(PresetsTest, DeepSeekV3HasItsPublishedSizes) {
  ModelSpec model = LoadModel("deepseek-v3");
  const int64_t with_module = NumParameters(model);
  const int64_t shared = 2 * model.vocab_size * model.hidden_size;
  model.num_multi_token_layers = 0;
  const int64_t main_model = NumParameters(model);
  EXPECT_NEAR(static_cast<double>(main_model) / 1e9, 671, 0.5);
  EXPECT_NEAR(static_cast<double>(NumActiveParameters(model)) / 1e9, 37, 0.6);
  EXPECT_NEAR(static_cast<double>(with_module - main_model + shared) / 1e9, 14, 0.6);
}

// Narayanan et al. 2021, arXiv:2104.04473, eq. 2: 12 l h^2 (1 + 13/(12h) + (V + s)/(12 l h)).
TEST(PresetsTest, TheMegatronSeriesFollowsItsFormula) {
  for (const std::string& name : ListPresets("models")) {
    if (name.rfind("megatron-", 0) != 0) continue;
    const ModelSpec model = LoadModel(name);
    const double l = model.num_layers;
    const double h = static_cast<double>(model.hidden_size);
    const double v_and_s = static_cast<double>(model.vocab_size + model.max_sequence_length);
    const double parameters = 12 * l * h * h * (1 + 13 / (12 * h) + v_and_s / (12 * l * h));
    // The formula leaves out the final norm's 2h.
    EXPECT_NEAR(static_cast<double>(NumParameters(model)), parameters + 2 * h, parameters * 1e-12)
        << name;
  }
}

using PresetFilesTest = FileTest;

TEST_F(PresetFilesTest, AFolderOfTheUsersComesFirst) {
  Write("models/gpt2-124m.json",
        Replaced(WriteModel(LoadModel("gpt2-124m")), "\"num_layers\": 12", "\"num_layers\": 3"));
  Write("models/mine.json", WriteModel(LoadModel("nano-gpt")));
  ::setenv("TESSERA_CONFIGS", Path("").c_str(), 1);
  EXPECT_EQ(LoadModel("gpt2-124m").num_layers, 3);
  EXPECT_THAT(ListPresets("models"), Contains("mine"));
  EXPECT_THAT(ListPresets("models"), Contains("llama3-8b"));
  ::unsetenv("TESSERA_CONFIGS");
  EXPECT_EQ(LoadModel("gpt2-124m").num_layers, 12);
}

TEST_F(PresetFilesTest, NamesDoNotLeaveTheFolder) {
  EXPECT_EQ(PresetPath("models", "../clusters/local-cpu"), "");
  EXPECT_EQ(PresetPath("models", ""), "");
  EXPECT_EQ(PresetPath("models", "no-such-model"), "");
}

TEST_F(PresetFilesTest, AModelOfOursReadsBackAsWritten) {
  for (const char* name : {"gpt2-124m", "llama3-405b", "mixtral-8x7b", "qwen2-7b"}) {
    const ModelSpec model = LoadModel(name);
    EXPECT_EQ(LoadModel(Write("model.json", WriteModel(model))), model) << name;
  }
}

TEST_F(PresetFilesTest, ATypoInAModelOfOursIsNamed) {
  const std::string path =
      Write("model.json", Replaced(WriteModel(LoadModel("gpt2-124m")), "\"norm\"", "\"nrm\""));
  EXPECT_THAT(ConfigErrorOf([&] { LoadModel(path); }),
              HasSubstr("/nrm: found an unknown key, expected \"norm\""));
}

TEST_F(PresetFilesTest, ADivisorOfTheHeadsIsAskedFor) {
  const std::string path =
      Write("model.json", Replaced(WriteModel(LoadModel("gpt2-124m")),
                                   "\"num_key_value_heads\": 12", "\"num_key_value_heads\": 5"));
  EXPECT_THAT(ConfigErrorOf([&] { LoadModel(path); }), HasSubstr("found 5, expected a divisor"));
}

TEST_F(PresetFilesTest, AnUnknownModelSuggestsTheNearest) {
  EXPECT_THAT(ConfigErrorOf([] { LoadModel("gpt2-124"); }), HasSubstr("\"gpt2-124m\""));
}

}  // namespace
}  // namespace tessera::spec
