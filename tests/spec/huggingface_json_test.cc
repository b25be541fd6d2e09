#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The published config.json files, their generation settings included.
constexpr const char* kGpt2 = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index",
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
  "vocab_size": 50257})";
constexpr const char* kLlama31 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256})";
constexpr const char* kQwen25 = R"({
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
  "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
  "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "use_cache": true, "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})";
constexpr const char* kMixtral = R"({
  "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32,
  "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "num_local_experts": 8, "output_router_logits": false, "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
  "tie_word_embeddings": false, "vocab_size": 32000})";
constexpr const char* kMistral = R"({
  "architectures": ["MistralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "vocab_size": 32000})";

// The published config.json files of families with forms of their own, their generation settings
// left out.
constexpr const char* kQwen3Moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "decoder_sparse_step": 1,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48,
  "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768,
  "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
  "num_hidden_layers": 48, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
  "use_sliding_window": false, "vocab_size": 151936})";
constexpr const char* kDeepSeekV3 = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "first_k_dense_replace": 3,
  "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.006,
  "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
  "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
  "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "factor": 40, "type": "yarn"}, "rope_theta": 10000,
  "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 129280})";
constexpr const char* kGptOss = R"({
  "architectures": ["GptOssForCausalLM"], "attention_bias": true, "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 2880, "initializer_range": 0.02, "intermediate_size": 2880,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
  "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64,
  "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
  "num_local_experts": 32, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "rope_type": "yarn"}, "rope_theta": 150000,
  "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false,
  "vocab_size": 201088})";

class HuggingFaceTest : public FileTest {
 protected:
  ModelSpec Load(const std::string& text) const { return LoadModel(Write("m/config.json", text)); }
  std::string ErrorOf(const std::string& text) const {
    return ConfigErrorOf([&] { Load(text); });
  }
};

// The same model, whatever its name.
void ExpectSameModel(ModelSpec actual, const ModelSpec& expected) {
  actual.name = expected.name;
  EXPECT_EQ(actual, expected);
}

TEST_F(HuggingFaceTest, Gpt2IsThePresetOfItsSize) {
  ExpectSameModel(Load(kGpt2), LoadModel("gpt2-124m"));
}

TEST_F(HuggingFaceTest, Llama31HasItsRopeScaling) {
  ModelSpec expected = LoadModel("llama3-8b");
  expected.max_sequence_length = 131072;
  expected.rope_scaling = RopeScaling{.factor = 8,
                                      .low_freq_factor = 1,
                                      .high_freq_factor = 4,
                                      .original_max_sequence_length = 8192};
  ExpectSameModel(Load(kLlama31), expected);
}

TEST_F(HuggingFaceTest, Qwen25HasBiasesOfQueriesKeysAndValuesAlone) {
  const ModelSpec model = Load(kQwen25);
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_FALSE(model.attention_output_bias);
  EXPECT_FALSE(model.mlp_bias);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.num_key_value_heads, 2);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.norm_epsilon, 1e-6);
}

TEST_F(HuggingFaceTest, MixtralIsThePresetOfItsSize) {
  ExpectSameModel(Load(kMixtral), LoadModel("mixtral-8x7b"));
}

TEST_F(HuggingFaceTest, FamiliesWithFormsOfTheirOwnAreThePresetsOfTheirSizes) {
  for (const auto& [text, preset] : {std::pair{kQwen3Moe, "qwen3-30b-a3b"},
                                     {kDeepSeekV3, "deepseek-v3"},
                                     {kGptOss, "gpt-oss-20b"}}) {
    ModelSpec model = Load(text);
    model.name = preset;
    EXPECT_EQ(model, LoadModel(preset)) << preset;
  }
}

TEST_F(HuggingFaceTest, FormsThatLieOtherwiseAreRefused) {
  EXPECT_THAT(ErrorOf(Replaced(kQwen3Moe, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [5]")),
              HasSubstr("/mlp_only_layers: found [5]"));
  EXPECT_EQ(Load(Replaced(kQwen3Moe, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [0, 1]"))
                .moe->num_leading_dense_layers,
            2);
  EXPECT_THAT(ErrorOf(Replaced(kGptOss, "[\"sliding_attention\", \"full_attention\"",
                               "[\"full_attention\", \"sliding_attention\"")),
              HasSubstr("/layer_types: found \"sliding_attention\" in layer 1"));
}

TEST_F(HuggingFaceTest, AFolderStandsForItsConfig) {
  Write("my-model/config.json", kGpt2);
  EXPECT_EQ(LoadModel(Path("my-model")).name, "my-model");
}

TEST_F(HuggingFaceTest, AbsentKeysTakeTheLibrarysDefaults) {
  const ModelSpec llama =
      Load(Replaced(Replaced(Replaced(kLlama31, "\"num_key_value_heads\": 8, ", ""),
                             "\"rms_norm_eps\": 1e-05,", "\"head_dim\": null,"),
                    "\"rope_theta\": 500000.0, \"tie_word_embeddings\": false,", ""));
  EXPECT_EQ(llama.num_key_value_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.rope_theta, 10000);
  EXPECT_FALSE(llama.tied_embeddings);
  const ModelSpec gpt2 = Load(Replaced(kGpt2, "\"n_ctx\": 1024", "\"n_inner\": null"));
  EXPECT_EQ(gpt2.ffn_hidden_size, 4 * 768);
  EXPECT_TRUE(gpt2.tied_embeddings);
}

TEST_F(HuggingFaceTest, ItsOwnHeadDimNeedNotMakeUpTheWidth) {
  const ModelSpec model =
      Load(Replaced(kLlama31, "\"hidden_act\"", "\"head_dim\": 96, \"hidden_act\""));
  EXPECT_EQ(model.head_dim, 96);
  EXPECT_EQ(model.hidden_size, 4096);
}

TEST_F(HuggingFaceTest, AttentionBiasOfLlamaCoversTheOutputToo) {
  const ModelSpec model =
      Load(Replaced(kLlama31, "\"attention_bias\": false", "\"attention_bias\": true"));
  EXPECT_TRUE(model.qkv_bias);
  EXPECT_TRUE(model.attention_output_bias);
}

TEST_F(HuggingFaceTest, RopeParametersOfLaterFilesAreRead) {
  const ModelSpec model =
      Load(Replaced(kQwen25, "\"rope_theta\": 1000000.0",
                    "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5e5}"));
  EXPECT_EQ(model.rope_theta, 5e5);
  EXPECT_FALSE(model.rope_scaling.has_value());
}

TEST_F(HuggingFaceTest, OtherMathematicsIsRefused) {
  EXPECT_THAT(ErrorOf(Replaced(kLlama31, "\"silu\"", "\"relu\"")),
              HasSubstr("config.json: /hidden_act: found \"relu\", expected \"silu\""));
  EXPECT_THAT(ErrorOf(Replaced(kGpt2, "gelu_new", "relu")), HasSubstr("/activation_function"));
  EXPECT_THAT(ErrorOf(Replaced(kLlama31, "\"rope_type\": \"llama3\"", "\"rope_type\": \"yarn\"")),
              HasSubstr("/rope_scaling/rope_type: found \"yarn\", expected \"default\" or "
                        "\"llama3\""));
  EXPECT_THAT(ErrorOf(Replaced(kQwen25, "\"use_sliding_window\": false, \"vocab_size\"",
                               "\"use_sliding_window\": true, \"vocab_size\"")),
              "");  // the window covers the longest sequence
  EXPECT_THAT(ErrorOf(kMistral), AllOf(HasSubstr("/sliding_window: found 4096"),
                                       HasSubstr("max_position_embeddings 32768")));
  EXPECT_THAT(ErrorOf(Replaced(kMistral, "\"sliding_window\": 4096,", "")),
              HasSubstr("/sliding_window: found 4096 (the default)"));
  EXPECT_EQ(ErrorOf(Replaced(kMistral, "4096,\n  \"tie", "null,\n  \"tie")), "");
}

TEST_F(HuggingFaceTest, AnotherFamilyIsRefused) {
  EXPECT_THAT(ErrorOf(Replaced(kGpt2, "\"model_type\": \"gpt2\"", "\"model_type\": \"bert\"")),
              HasSubstr("/model_type: found \"bert\", expected \"gpt2\", \"llama\""));
  EXPECT_THAT(ErrorOf(Replaced(kGpt2, "\"model_type\": \"gpt2\",", "")),
              HasSubstr("/model_type: found nothing"));
}

TEST_F(HuggingFaceTest, MissingAndContradictorySizesAreRefused) {
  EXPECT_THAT(ErrorOf(Replaced(kLlama31, "\"hidden_size\": 4096,", "")),
              HasSubstr("/hidden_size: found nothing"));
  EXPECT_THAT(ErrorOf(Replaced(kGpt2, "\"n_head\": 12", "\"n_head\": 7")),
              HasSubstr("/n_embd: found 768, expected a multiple of the 7 heads"));
  EXPECT_THAT(
      ErrorOf(Replaced(kLlama31, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5")),
      HasSubstr("found 5, expected a divisor of the 32"));
}

TEST_F(HuggingFaceTest, ExportIsTheInverseOfImport) {
  for (const char* text : {kGpt2, kLlama31, kQwen25, kMixtral}) {
    const ModelSpec model = Load(text);
    EXPECT_EQ(Load(WriteHuggingFaceConfig(model)), model) << text;
  }
}

// transformers adds the loss only to models that give out their routers' logits.
TEST_F(HuggingFaceTest, RoutersSayWhatTheyAdd) {
  EXPECT_EQ(Load(kMixtral).moe->auxiliary_loss_coefficient, 0);
  const ModelSpec added =
      Load(Replaced(kMixtral, "\"output_router_logits\": false", "\"output_router_logits\": true"));
  EXPECT_EQ(added.moe->auxiliary_loss_coefficient, 0.02);
  EXPECT_TRUE(added.moe->normalized_router_weights);
  EXPECT_EQ(Load(WriteHuggingFaceConfig(added)), added);
  EXPECT_TRUE(Load(kQwen3Moe).moe->normalized_router_weights);
  EXPECT_FALSE(Load(Replaced(kQwen3Moe, "\"norm_topk_prob\": true", "\"norm_topk_prob\": false"))
                   .moe->normalized_router_weights);
}

TEST_F(HuggingFaceTest, ExpertsOfQwenComeBack) {
  ModelSpec model = LoadModel("qwen1.5-moe-a2.7b");
  model.moe->num_leading_dense_layers = 2;
  model.moe->auxiliary_loss_coefficient = 0.001;
  const std::string config = WriteHuggingFaceConfig(model);
  EXPECT_THAT(config, HasSubstr("\"Qwen2MoeForCausalLM\""));
  ExpectSameModel(Load(config), model);
}

TEST_F(HuggingFaceTest, ExportNamesTheFamily) {
  const std::string llama = WriteHuggingFaceConfig(Load(kLlama31));
  EXPECT_THAT(llama, HasSubstr("\"model_type\": \"llama\""));
  EXPECT_THAT(llama, HasSubstr("\"LlamaForCausalLM\"\n  ]"));
  EXPECT_THAT(llama, HasSubstr("\"rope_type\": \"llama3\""));
  EXPECT_THAT(WriteHuggingFaceConfig(Load(kQwen25)), HasSubstr("\"model_type\": \"qwen2\""));
}

TEST_F(HuggingFaceTest, AModelOfNoFamilyCannotBeExported) {
  ModelSpec model = Load(kGpt2);
  model.mlp_bias = false;
  EXPECT_THAT(ConfigErrorOf([&] { WriteHuggingFaceConfig(model); }), HasSubstr("gpt2"));
  model = Load(kLlama31);
  model.attention_output_bias = true;
  EXPECT_THAT(ConfigErrorOf([&] { WriteHuggingFaceConfig(model); }),
              HasSubstr("attention_output_bias"));
  model = Load(kLlama31);
  model.position = PositionKind::kLearned;
  EXPECT_THAT(ConfigErrorOf([&] { WriteHuggingFaceConfig(model); }), HasSubstr("position"));
}

}  // namespace
}  // namespace tessera::spec
