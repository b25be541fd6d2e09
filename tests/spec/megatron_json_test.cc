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

// DeepSeek-V3's shape by Megatron-LM's names.
constexpr const char* kLatentExperts = R"ARGS(
--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128
--kv-channels 128 --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128
--qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm --rotary-scaling-factor 40 --mscale 1.0
--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
--untie-embeddings-and-output-weights --vocab-size 129280 --seq-length 4096
--max-position-embeddings 4096 --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048
--moe-shared-expert-intermediate-size 2048 --moe-layer-freq "([0]*3+[1]*58)" --mtp-num-layers 1
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 16
--pipeline-model-parallel-layout "Et*3|(tt|)*29m|L" --expert-model-parallel-size 64
--expert-tensor-parallel-size 1 --sequence-parallel --bf16
)ARGS";

TEST_F(MegatronTest, LatentAttentionAndExpertsAreRead) {
  const Loaded loaded = Load(kLatentExperts, "args.txt");
  const MlaSpec mla = {.q_lora_rank = 1536,
                       .kv_lora_rank = 512,
                       .qk_nope_head_dim = 128,
                       .qk_rope_head_dim = 64,
                       .v_head_dim = 128};
  EXPECT_EQ(loaded.model.mla, mla);
  EXPECT_EQ(loaded.model.head_dim, 192);
  const MoeSpec moe = {.num_experts = 256,
                       .experts_per_token = 8,
                       .expert_ffn_hidden_size = 2048,
                       .shared_expert_ffn_hidden_size = 2048,
                       .num_leading_dense_layers = 3};
  EXPECT_EQ(loaded.model.moe, moe);
  EXPECT_EQ(loaded.model.num_multi_token_layers, 1);
  EXPECT_EQ(loaded.parallel.expert_parallel_size, 64);
  EXPECT_EQ(loaded.parallel.expert_tensor_parallel_size, 1);
  // 31 parts and the loss alone: 32 stages over 16 ranks are two chunks each.
  EXPECT_EQ(loaded.parallel.virtual_pipeline_size, 2);
  std::vector<int> layers(32, 2);
  layers[0] = 3;
  layers[30] = layers[31] = 0;
  EXPECT_EQ(loaded.parallel.layers_per_virtual_stage, layers);
}

TEST_F(MegatronTest, ExpertLayersMayBeAListInJson) {
  const char* model = R"({"num_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
                          "seq_length": 32, "num_experts": 8, "moe_layer_freq": FREQ})";
  EXPECT_EQ(Load(Replaced(model, "FREQ", "[0, 1, 1, 1]")).model.moe->num_leading_dense_layers, 1);
  EXPECT_EQ(Load(Replaced(model, "FREQ", "\"[0]*2+[1]*2\"")).model.moe->num_leading_dense_layers,
            2);
  for (const char* other : {"2", "[0, 1, 0, 1]", "\"([0]*3+[1]*3)\"", "\"[0]*3+\"", "\"(([1]*4)\"",
                            "\"[1]*9999*9999\""}) {
    EXPECT_THAT(ErrorOf(Replaced(model, "FREQ", other)), HasSubstr("/moe_layer_freq: found"))
        << other;
  }
}

TEST_F(MegatronTest, BrokenStagesAreTold) {
  for (const char* layout : {"tt|tt", "Et|tX|L", "Et|E|tL", "E(t|tL", "Et*99999|tL", "EtL|t"}) {
    EXPECT_THAT(ErrorOf(Replaced(kLatentExperts, "Et*3|(tt|)*29m|L", layout), "args.txt"),
                HasSubstr("/--pipeline-model-parallel-layout: found"))
        << layout;
  }
  EXPECT_THAT(ErrorOf(Replaced(kLatentExperts, "(tt|)*29m|L", "t|tL"), "args.txt"),
              HasSubstr("found 3 stages, expected a multiple of the pipeline size 16"));
}

constexpr const char* kSmallRun = R"(
--num-layers 10 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --global-batch-size 16
--micro-batch-size 1 --pipeline-model-parallel-size 4 MORE
)";

TEST_F(MegatronTest, AWholeCommandLineSetsWhatItLeavesOut) {
  const Loaded loaded = Load(Replaced(kSmallRun, "MORE", ""), "args.txt");
  EXPECT_EQ(loaded.training.precision, Precision::kFp32);
  const ParallelSpec expected = {
      .pipeline_parallel_size = 4, .zero_stage = 0, .overlap_grad_reduce = false};
  EXPECT_EQ(loaded.parallel, expected);
  EXPECT_THAT(loaded.keys_set,
              IsSupersetOf({"tensor_parallel_size", "zero_stage", "overlap_grad_reduce",
                            "sequence_parallel", "recompute", "schedule", "precision"}));
}

TEST_F(MegatronTest, UnevenStagesAreReadFromTheirEnds) {
  const auto layers = [&](const std::string& more) {
    return Load(Replaced(kSmallRun, "MORE", more), "args.txt").parallel.layers_per_virtual_stage;
  };
  EXPECT_EQ(layers("--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3"),
            (std::vector<int>{1, 3, 3, 3}));
  EXPECT_EQ(layers("--decoder-first-pipeline-num-layers 4"), (std::vector<int>{4, 2, 2, 2}));
  EXPECT_EQ(layers("--pipeline-model-parallel-layout Ett|tttt|t|tttL"),
            (std::vector<int>{2, 4, 1, 3}));
  // Embedding and loss count as a layer each: 12 are 3 a stage, as the even split has it too.
  EXPECT_EQ(layers("--account-for-embedding-in-pipeline-split "
                   "--account-for-loss-in-pipeline-split"),
            (std::vector<int>{}));
  EXPECT_THAT(
      ErrorOf(Replaced(kSmallRun, "MORE", "--decoder-first-pipeline-num-layers 2"), "args.txt"),
      HasSubstr("a size with which 10 layers cut evenly over the 4 stages"));
}

TEST_F(MegatronTest, TheFirstLayersOfEveryStageMayBeRecomputed) {
  const auto recomputed = [&](const std::string& count) {
    return Load(Replaced(kSmallRun, "MORE",
                         "--recompute-granularity full --recompute-method block "
                         "--recompute-num-layers " +
                             count),
                "args.txt")
        .parallel.recomputed_layers_per_virtual_stage;
  };
  EXPECT_EQ(recomputed("1"), (std::vector<int>{1, 1, 1, 1}));
  // Stages of 2, 3, 3, 2 layers: those of 2 have no third one, and 3 are all.
  EXPECT_EQ(recomputed("3"), (std::vector<int>{}));
}

TEST_F(MegatronTest, ShardingAndItsCommunicationAreRead) {
  const auto parallel = [&](const std::string& more) {
    return Load(Replaced(kSmallRun, "MORE", more), "args.txt").parallel;
  };
  EXPECT_EQ(parallel("--use-distributed-optimizer").zero_stage, 1);
  EXPECT_EQ(
      parallel("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads").zero_stage, 2);
  EXPECT_EQ(parallel("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
                     "--use-distributed-optimizer")
                .zero_stage,
            3);
  EXPECT_EQ(parallel("--use-torch-fsdp2").zero_stage, 3);
  EXPECT_TRUE(
      parallel("--optimizer-cpu-offload --use-precision-aware-optimizer").offload_optimizer);
  EXPECT_TRUE(parallel("--tp-comm-overlap").overlap_tp_comm);
  EXPECT_TRUE(parallel("--overlap-param-gather").overlap_param_gather);
  EXPECT_EQ(parallel("--grad-reduce-in-bf16").gradient_reduce_type, base::DType::kBFloat16);
  EXPECT_EQ(parallel("--ddp-bucket-size 1000").bucket_elements, 1000);
  EXPECT_EQ(parallel("--cp-comm-type a2a").context_kind, ContextKind::kAllToAll);
  EXPECT_EQ(parallel("--attention-backend unfused").attention, AttentionKind::kUnfused);
  EXPECT_EQ(parallel("--use-tp-pp-dp-mapping").rank_order, "tp-cp-ep-pp-dp");
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
        "\"position_embedding_type\": \"alibi\"", "\"moe_layer_freq\": 2", "\"optimizer\": \"sgd\"",
        "\"recompute_modules\": \"mlp\"", "\"window_size\": \"7,7\"",
        "\"window_size\": \"9223372036854775807,0\"", "\"lr_decay_style\": \"square\""}) {
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
