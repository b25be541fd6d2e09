// Megatron-LM's arguments written and read back.
#include "cost_model/spec/megatron_write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MegatronWriteTest : public FileTest {
 protected:
  static std::string TextOf(const MegatronCommand& command) {
    std::string text = "# arguments\n";
    for (const MegatronArgument& argument : command.arguments) {
      text += MegatronLine(argument) + "\n";
    }
    return text;
  }
  // Writes, reads, and says that nothing changed.
  void ExpectRoundTrip(const ModelSpec& model, const TrainingSpec& training,
                       const ParallelSpec& parallel) const {
    const MegatronCommand command = WriteMegatronArguments(model, training, parallel);
    EXPECT_THAT(command.violations, IsEmpty()) << command.violations.front().message;
    EXPECT_THAT(command.warnings, IsEmpty());
    TrainingSpec read_training;
    ParallelSpec read_parallel;
    const std::string file = Write("args.txt", TextOf(command));
    ModelSpec read_model = LoadModel(file, &read_training, &read_parallel);
    read_model.name = model.name;
    read_parallel.data_parallel_size = parallel.data_parallel_size;  // the number of devices says
    EXPECT_EQ(read_model, model) << TextOf(command);
    EXPECT_EQ(read_training, training) << TextOf(command);
    EXPECT_EQ(read_parallel, parallel) << TextOf(command);
  }
};

TrainingSpec TrainingOf(const ModelSpec& model, Precision precision = Precision::kBf16) {
  return {.global_batch_size = 64,
          .sequence_length = model.max_sequence_length,
          .steps = 1234,
          .precision = precision,
          .seed = 99,
          .optimizer = {.lr = 1.5e-4, .min_lr = 1e-5, .lr_warmup_steps = 20, .adam_beta2 = 0.98}};
}

std::vector<ParallelSpec> LayoutsOf(const ModelSpec& model) {
  ParallelSpec plain = {.data_parallel_size = 4, .zero_stage = 0, .overlap_grad_reduce = false};
  ParallelSpec sharded = {.tensor_parallel_size = 2,
                          .data_parallel_size = 2,
                          .context_parallel_size = 2,
                          .micro_batch_size = 2,
                          .sequence_parallel = true,
                          .recompute = Recompute::kSelective,
                          .overlap_param_gather = true,
                          .overlap_tp_comm = true};
  sharded.context_kind = ContextKind::kAllGather;
  ParallelSpec pipelined = {.pipeline_parallel_size = 2,
                            .recompute = Recompute::kFull,
                            .zero_stage = 3,
                            .attention = AttentionKind::kUnfused,
                            .vocab_size_multiple = 64,
                            .bucket_elements = 1000};
  pipelined.gradient_reduce_type = base::DType::kBFloat16;
  ParallelSpec uneven = {.pipeline_parallel_size = 2, .zero_stage = 2};
  uneven.layers_per_virtual_stage = {model.num_layers - 1, 1};
  uneven.recompute = Recompute::kFull;
  uneven.recomputed_layers_per_virtual_stage = {1, 1};
  uneven.rank_order = "tp-cp-ep-pp-dp";
  uneven.data_parallel_size = 2;
  uneven.offload_optimizer = true;
  return {plain, sharded, pipelined, uneven};
}

TEST_F(MegatronWriteTest, EveryPresetComesBackInManyLayouts) {
  for (const std::string& name : ListPresets("models")) {
    const ModelSpec model = LoadModel(name);
    for (const ParallelSpec& parallel : LayoutsOf(model)) {
      SCOPED_TRACE(name);
      ExpectRoundTrip(model, TrainingOf(model), parallel);
    }
  }
}

TEST_F(MegatronWriteTest, EveryScheduleComesBack) {
  const ModelSpec model = LoadModel("gpt2-124m");
  TrainingSpec training = TrainingOf(model);
  OptimizerSpec& optimizer = training.optimizer;
  for (int i = 0; ToString(static_cast<LrDecayStyle>(i)) != "?"; ++i) {
    optimizer.lr_decay_style = static_cast<LrDecayStyle>(i);
    if (optimizer.lr_decay_style == LrDecayStyle::kWsd) optimizer.lr_wsd_decay_steps = 200;
    ExpectRoundTrip(model, training, ParallelSpec{});
  }
  optimizer.lr_warmup_init = 1e-5;
  optimizer.lr_wsd_decay_style = WsdDecayStyle::kMinusSqrt;
  optimizer.weight_decay_style = WeightDecayStyle::kLinear;
  optimizer.end_weight_decay = 0.4;
  ExpectRoundTrip(model, training, ParallelSpec{});
  optimizer.lr_decay_steps = 900;
  training.batch_ramp = BatchRamp{.start_batch_size = 16, .increment = 16, .samples = 1000};
  ExpectRoundTrip(model, training, ParallelSpec{});
}

TEST_F(MegatronWriteTest, EmbeddingsWithoutWeightDecayAreWarnedOf) {
  const ModelSpec model = LoadModel("gpt2-124m");
  TrainingSpec training = TrainingOf(model);
  training.optimizer.decay_embeddings = false;
  EXPECT_THAT(WriteMegatronArguments(model, training, ParallelSpec{}).warnings,
              Contains(HasSubstr("embeddings")));
}

TEST_F(MegatronWriteTest, EveryPrecisionComesBack) {
  const ModelSpec model = LoadModel("gpt2-124m");
  for (const Precision precision :
       {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
    ExpectRoundTrip(model, TrainingOf(model, precision), ParallelSpec{});
  }
}

TEST_F(MegatronWriteTest, ExpertsLatentAttentionAndWindowsComeBack) {
  ModelSpec model = LoadModel("llama3-8b");
  model.moe = MoeSpec{.num_experts = 64,
                      .experts_per_token = 6,
                      .expert_ffn_hidden_size = 1408,
                      .shared_expert_ffn_hidden_size = 2816,
                      .num_leading_dense_layers = 2,
                      .capacity_factor = 1.25};
  model.sliding_window = SlidingWindowSpec{.size = 4096, .full_attention_interval = 4};
  model.num_multi_token_layers = 1;
  ParallelSpec parallel = {.tensor_parallel_size = 2, .data_parallel_size = 8};
  parallel.expert_parallel_size = 8;
  parallel.expert_tensor_parallel_size = 1;
  ExpectRoundTrip(model, TrainingOf(model), parallel);
  model.num_key_value_heads = model.num_attention_heads;
  model.mla = MlaSpec{.q_lora_rank = 0,
                      .kv_lora_rank = 512,
                      .qk_nope_head_dim = 128,
                      .qk_rope_head_dim = 64,
                      .v_head_dim = 128};
  model.head_dim = 192;
  ExpectRoundTrip(model, TrainingOf(model), parallel);
}

TEST_F(MegatronWriteTest, RoutingComesBack) {
  ModelSpec model = LoadModel("mixtral-8x7b");
  ExpectRoundTrip(model, TrainingOf(model), ParallelSpec{});
  model.moe->normalized_router_weights = false;
  model.moe->auxiliary_loss_coefficient = 0.02;
  model.moe->z_loss_coefficient = 0.001;
  model.moe->forced_uniform_routing = true;
  ExpectRoundTrip(model, TrainingOf(model), ParallelSpec{});
}

TEST_F(MegatronWriteTest, InterleavedAndUnevenStagesComeBack) {
  const ModelSpec model = LoadModel("llama3-8b");  // 32 layers
  ParallelSpec parallel = {.pipeline_parallel_size = 4, .virtual_pipeline_size = 2};
  parallel.schedule = ScheduleKind::kInterleaved;
  ExpectRoundTrip(model, TrainingOf(model), parallel);
  parallel.overlap_pp_comm = true;
  ExpectRoundTrip(model, TrainingOf(model), parallel);
  parallel.layers_per_virtual_stage = {3, 4, 4, 5, 5, 4, 4, 3};
  ExpectRoundTrip(model, TrainingOf(model), parallel);
  parallel = {.pipeline_parallel_size = 5};  // 6, 6, 7, 7, 6
  ExpectRoundTrip(model, TrainingOf(model), parallel);
  parallel.layers_per_virtual_stage = {0, 10, 10, 12, 0};
  ExpectRoundTrip(model, TrainingOf(model), parallel);
  parallel.layers_per_virtual_stage = {5, 7, 7, 7, 6};
  ExpectRoundTrip(model, TrainingOf(model), parallel);
}

// The line that sets `name`, "" where none does.
std::string LineOf(const MegatronCommand& command, const std::string& name) {
  for (const MegatronArgument& argument : command.arguments) {
    if (argument.name == name) return MegatronLine(argument);
  }
  return "";
}

TEST_F(MegatronWriteTest, ArgumentsHaveMegatronsNamesAndForm) {
  ModelSpec model = LoadModel("llama3-70b");
  ParallelSpec parallel = {
      .tensor_parallel_size = 8, .pipeline_parallel_size = 4, .sequence_parallel = true};
  const MegatronCommand command = WriteMegatronArguments(model, TrainingOf(model), parallel);
  EXPECT_EQ(LineOf(command, "num_layers"), "--num-layers 80");
  EXPECT_EQ(LineOf(command, "group_query_attention"), "--group-query-attention");
  EXPECT_EQ(LineOf(command, "num_query_groups"), "--num-query-groups 8");
  EXPECT_EQ(LineOf(command, "rotary_base"), "--rotary-base 500000");  // an integer to Megatron-LM
  EXPECT_EQ(LineOf(command, "position_embedding_type"), "--position-embedding-type rope");
  EXPECT_EQ(LineOf(command, "normalization"), "--normalization RMSNorm");
  EXPECT_EQ(LineOf(command, "swiglu"), "--swiglu");
  EXPECT_EQ(LineOf(command, "disable_bias_linear"), "--disable-bias-linear");
  EXPECT_EQ(LineOf(command, "tensor_model_parallel_size"), "--tensor-model-parallel-size 8");
  EXPECT_EQ(LineOf(command, "attention_backend"), "--attention-backend flash");
  EXPECT_EQ(LineOf(command, "use_distributed_optimizer"), "--use-distributed-optimizer");
  EXPECT_EQ(LineOf(command, "lr"), "--lr 0.00015");
  EXPECT_EQ(LineOf(command, "bf16"), "--bf16");
  EXPECT_EQ(LineOf(command, "recompute_granularity"), "");
}

TEST_F(MegatronWriteTest, OnlyTheQueryKeyValueBiasHasAFlagOfItsOwn) {
  const ModelSpec model = LoadModel("qwen2-7b");
  const MegatronCommand command = WriteMegatronArguments(model, TrainingOf(model), {});
  EXPECT_EQ(LineOf(command, "add_qkv_bias"), "--add-qkv-bias");
  EXPECT_EQ(LineOf(command, "disable_bias_linear"), "--disable-bias-linear");
}

TEST_F(MegatronWriteTest, WhatMegatronCannotRunIsAViolation) {
  const ModelSpec model = LoadModel("gpt2-124m");
  const auto constraint = [&](const ModelSpec& changed, const ParallelSpec& parallel) {
    const MegatronCommand command = WriteMegatronArguments(changed, TrainingOf(model), parallel);
    return command.violations.empty() ? "" : command.violations.front().constraint;
  };
  EXPECT_EQ(constraint(model, {.pipeline_parallel_size = 2, .schedule = ScheduleKind::kGPipe}),
            "schedule");
  ParallelSpec ordered = {.tensor_parallel_size = 2, .data_parallel_size = 2};
  ordered.rank_order = "dp-tp-cp-ep-pp";
  EXPECT_EQ(constraint(model, ordered), "rank order");
  ordered.data_parallel_size = 1;  // alone, an axis has no order
  EXPECT_EQ(constraint(model, ordered), "");
  ModelSpec biased = model;
  biased.mlp_bias = false;
  EXPECT_EQ(constraint(biased, {}), "biases");
  EXPECT_EQ(constraint(model, {.zero_stage = 0, .offload_optimizer = true}), "optimizer offload");
}

TEST_F(MegatronWriteTest, WhatIsSaidOtherwiseIsAWarning) {
  const ModelSpec model = LoadModel("gpt2-124m");  // 12 layers
  ParallelSpec parallel = {.pipeline_parallel_size = 2, .recompute = Recompute::kFull};
  parallel.recomputed_layers_per_virtual_stage = {4, 1};
  const MegatronCommand command = WriteMegatronArguments(model, TrainingOf(model), parallel);
  EXPECT_THAT(command.warnings, Contains(HasSubstr("as many layers on every stage: 4")));
  EXPECT_EQ(LineOf(command, "recompute_num_layers"), "--recompute-num-layers 4");
  const MegatronCommand overlapped = WriteMegatronArguments(
      model, TrainingOf(model), {.tensor_parallel_size = 2, .overlap_tp_comm = true});
  EXPECT_THAT(overlapped.warnings, Contains(HasSubstr("--tp-comm-overlap is left out")));
  EXPECT_EQ(LineOf(overlapped, "tp_comm_overlap"), "");
}

}  // namespace
}  // namespace tessera::spec
