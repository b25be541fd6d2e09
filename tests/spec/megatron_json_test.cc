#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

struct Loaded {
  ModelSpec model;
  TrainingSpec training;
  ParallelSpec parallel;
  std::vector<std::string> keys_set;
};

class MegatronTest : public FileTest {
 protected:
  Loaded Load(const std::string& text, const std::string& name = "args.json") const {
    Loaded loaded;
    loaded.model =
        LoadModel(Write(name, text), &loaded.training, &loaded.parallel, &loaded.keys_set);
    return loaded;
  }
  std::string ErrorOf(const std::string& text, const std::string& name = "args.json") const {
    return ConfigErrorOf([&] { Load(text, name); });
  }
};

constexpr const char* kGpt3 = R"({
  "num_layers": 96, "hidden_size": 12288, "num_attention_heads": 96, "seq_len": 2048,
  "bf16": true, "tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 4})";

TEST_F(MegatronTest, ModelAndLayoutAreReadFromOneFlatFile) {
  const Loaded loaded = Load(kGpt3);
  // Megatron-LM's GPT: the published model but for its name.
  ModelSpec expected = LoadModel("gpt3-175b");
  expected.name = "args";
  EXPECT_EQ(loaded.model, expected);
  EXPECT_EQ(loaded.training.sequence_length, 2048);
  EXPECT_EQ(loaded.training.precision, Precision::kBf16);
  EXPECT_EQ(loaded.parallel.tensor_parallel_size, 8);
  EXPECT_EQ(loaded.parallel.pipeline_parallel_size, 4);
  EXPECT_THAT(loaded.keys_set,
              UnorderedElementsAre("sequence_length", "precision", "tensor_parallel_size",
                                   "pipeline_parallel_size"));
}

TEST_F(MegatronTest, TheModelAloneMayBeAskedFor) {
  EXPECT_EQ(LoadModel(Write("args.json", kGpt3)).num_layers, 96);
}

constexpr const char* kLlamaYaml = R"(
model:
  num-layers: 32
  hidden-size: 4096
  ffn-hidden-size: 14336
  num-attention-heads: 32
  group-query-attention: true
  num-query-groups: 8
  position-embedding-type: rope
  rotary-base: 500000
  normalization: RMSNorm
  norm-epsilon: 1e-5
  swiglu: true
  disable-bias-linear: true
  untie-embeddings-and-output-weights: true
  vocab-size: 128256
  seq-length: 8192
training:
  micro-batch-size: 2
  global-batch-size: 512
  train-iters: 1000
  lr: 1.5e-4
  min_lr: 1.0e-5
  lr-warmup-iters: 50
  lr-decay-style: linear
  weight-decay: 0.1
  clip-grad: 1.0
  adam-beta2: 0.99
  seed: 7
  fp16: true
  tokenizer-type: "Llama3"
parallel:
  tensor-model-parallel-size: 4
  pipeline-model-parallel-size: 4
  num-layers-per-virtual-pipeline-stage: 2
  context-parallel-size: 2
  sequence-parallel: true
  use-distributed-optimizer: false
  recompute-granularity: selective
  use-flash-attn: false
  make-vocab-size-divisible-by: 64
)";

TEST_F(MegatronTest, SectionsDashesAndYamlMeanTheSame) {
  const Loaded loaded = Load(kLlamaYaml, "args.yaml");
  ModelSpec expected = LoadModel("llama3-8b");
  expected.name = "args";
  EXPECT_EQ(loaded.model, expected);
  const TrainingSpec training = {.global_batch_size = 512,
                                 .sequence_length = 8192,
                                 .steps = 1000,
                                 .precision = Precision::kFp16,
                                 .seed = 7,
                                 .optimizer = {.lr = 1.5e-4,
                                               .min_lr = 1e-5,
                                               .lr_warmup_steps = 50,
                                               .lr_decay_style = LrDecayStyle::kLinear,
                                               .adam_beta2 = 0.99,
                                               .weight_decay = 0.1,
                                               .clip_grad = 1.0}};
  EXPECT_EQ(loaded.training, training);
  const ParallelSpec parallel = {.tensor_parallel_size = 4,
                                 .pipeline_parallel_size = 4,
                                 .context_parallel_size = 2,
                                 .virtual_pipeline_size = 4,
                                 .micro_batch_size = 2,
                                 .sequence_parallel = true,
                                 .recompute = Recompute::kSelective,
                                 .zero_stage = 0,
                                 .schedule = ScheduleKind::kInterleaved,
                                 .attention = AttentionKind::kUnfused,
                                 .layers_per_virtual_stage = {},
                                 .vocab_size_multiple = 64};
  EXPECT_EQ(loaded.parallel, parallel);
  EXPECT_THAT(loaded.keys_set,
              IsSupersetOf({"virtual_pipeline_size", "schedule", "recompute", "zero_stage", "lr",
                            "attention", "global_batch_size", "steps", "seed"}));
}

TEST_F(MegatronTest, ArgumentsOfACommandLineMeanTheSame) {
  const Loaded expected = Load(kGpt3);
  const Loaded loaded = Load(R"(# GPT-3
--num-layers 96 --hidden-size=12288 \
    --num-attention-heads 96   # heads of 128
--seq-length 2048 --bf16
--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4
--data-path 0.5 "first part" 0.5 second
)",
                             "args.txt");
  EXPECT_EQ(loaded.model, expected.model);
  EXPECT_EQ(loaded.training, expected.training);
  EXPECT_EQ(loaded.parallel, expected.parallel);
}

TEST_F(MegatronTest, BrokenCommandLinesNameTheLine) {
  EXPECT_THAT(ErrorOf("--num-layers 2\n--num-layers 3\n", "args.txt"),
              HasSubstr("line 2: found --num-layers a second time"));
  EXPECT_THAT(ErrorOf("--num-layers 2\n--data-path \"x\n", "args.txt"),
              HasSubstr("line 2: a quotation without its end"));
  EXPECT_THAT(ErrorOf("--num-layers twelve --hidden-size 8 --num-attention-heads 2", "args.txt"),
              HasSubstr("/--num-layers: found \"twelve\", expected an integer"));
}

TEST_F(MegatronTest, DefaultsAreMegatronsForGpt) {
  const ModelSpec model = Load(R"({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
                                   "max_position_embeddings": 128})")
                              .model;
  EXPECT_EQ(model.norm, NormKind::kLayerNorm);
  EXPECT_EQ(model.position, PositionKind::kLearned);
  EXPECT_EQ(model.activation, ActivationKind::kGelu);
  EXPECT_EQ(model.ffn_hidden_size, 256);
  EXPECT_EQ(model.vocab_size, 50257);
  EXPECT_TRUE(model.qkv_bias && model.attention_output_bias && model.mlp_bias);
  EXPECT_TRUE(model.tied_embeddings);
}

TEST_F(MegatronTest, ExpertsAreDescribed) {
  const Loaded loaded =
      Load(R"({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "seq_length": 32,
               "num_moe_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 96,
               "expert_model_parallel_size": 4, "moe_grouped_gemm": true})");
  EXPECT_EQ(loaded.model.moe, (MoeSpec{8, 2, 96}));
  EXPECT_EQ(loaded.parallel.expert_parallel_size, 4);
}

TEST_F(MegatronTest, AGatedMlpIsTwoThirdsAsWideByDefault) {
  // 4 * 4096 * 2 / 3 = 10922.67, down to a multiple of 64.
  const ModelSpec model = Load(R"({"num_layers": 2, "hidden_size": 4096, "seq_length": 32,
                                   "num_attention_heads": 32, "swiglu": true})")
                              .model;
  EXPECT_EQ(model.ffn_hidden_size, 10880);
}

TEST_F(MegatronTest, AnUnknownKeyIsNamedWithTheKeyMeant) {
  EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"hidden_size\"", "\"hiden_size\"")),
              HasSubstr("args.json: /hiden_size: found an unknown key, expected \"hidden_size\""));
  EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"bf16\": true", "\"bf16\": true, \"zzz\": 1")),
              HasSubstr("/zzz: found an unknown key, expected the long name"));
  EXPECT_THAT(ErrorOf(Replaced(kLlamaYaml, "micro-batch-size", "micro-batchsize"), "args.yaml"),
              HasSubstr("/training/micro-batchsize: found an unknown key, expected "
                        "\"micro_batch_size\""));
}

TEST_F(MegatronTest, MissingSizesAreNamed) {
  EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"hidden_size\": 12288,", "")),
              HasSubstr("/hidden_size: found nothing"));
  EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"seq_len\": 2048,", "")),
              HasSubstr("/max_position_embeddings: found nothing"));
}

TEST_F(MegatronTest, OneArgumentGivenTwiceIsRefused) {
  EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"bf16\": true", "\"seq_length\": 1024")),
              HasSubstr("found the argument a second time"));
  EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"bf16\": true", "\"train\": {\"seq-len\": 1024}")),
              HasSubstr("found the argument a second time"));
}

TEST_F(MegatronTest, OtherMathematicsIsRefused) {
  for (const char* other :
       {"\"normalization\": \"L1Norm\"", "\"squared_relu\": true", "\"rotary_percent\": 0.5",
        "\"position_embedding_type\": \"alibi\"", "\"qk_layernorm\": true",
        "\"moe_shared_expert_intermediate_size\": 64", "\"optimizer\": \"sgd\"",
        "\"recompute_method\": \"block\"", "\"lr_decay_style\": \"WSD\""}) {
    EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"bf16\": true", other)), HasSubstr("expected")) << other;
  }
  EXPECT_EQ(ErrorOf(Replaced(kGpt3, "\"bf16\": true", "\"rotary_percent\": 1.0")), "");
}

TEST_F(MegatronTest, ContradictionsAreRefused) {
  EXPECT_THAT(ErrorOf(Replaced(kGpt3, "\"bf16\": true", "\"bf16\": true, \"fp16\": true")),
              HasSubstr("/fp16: found true, expected false"));
  EXPECT_THAT(
      ErrorOf(Replaced(kGpt3, "\"num_attention_heads\": 96", "\"num_attention_heads\": 100")),
      HasSubstr("/hidden_size: found 12288, expected a multiple of the 100"));
  EXPECT_THAT(
      ErrorOf(Replaced(kLlamaYaml, "virtual-pipeline-stage: 2", "virtual-pipeline-stage: 3"),
              "args.yaml"),
      HasSubstr("cuts 32 layers evenly over 4 stages"));
}

TEST_F(MegatronTest, BrokenYamlNamesLineAndColumn) {
  EXPECT_THAT(ErrorOf("num_layers: 2\nhidden_size: [1\n", "args.yaml"),
              HasSubstr("args.yaml: line 3, column "));
  EXPECT_THAT(ErrorOf("num_layers: 2\nnum_layers: 3\n", "args.yaml"),
              HasSubstr("/num_layers: found the key a second time"));
  EXPECT_THAT(ErrorOf("just words", "args.yaml"), HasSubstr("expected an object"));
}

TEST_F(MegatronTest, YamlAliasesThatUnfoldWithoutEndAreRefused) {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 0; k < 9; ++k) text += ", " + before;
    text += "]\n";
  }
  EXPECT_THAT(ErrorOf(text, "args.yaml"), HasSubstr("too deep or too large"));
}

TEST_F(MegatronTest, APlanIsNoModel) {
  EXPECT_THAT(ErrorOf(R"({"format_version": 1, "model": {}})"),
              HasSubstr("found a plan, expected the description of a model"));
}

}  // namespace
}  // namespace tessera::spec
