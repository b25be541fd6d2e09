// From the words of a row to what is priced.
#include "planner/validation/measured_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "planner/validation/measured_cluster.h"
#include "planner/validation/measured_model.h"
#include "tests/validation/test_rows.h"

namespace tessera::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr double kGigabit = 1e9 / 8;

MeasuredJob JobOf(const Measurement& row) {
  JobMaker jobs(RowRules::Load(spec::PresetPath("measurements", "rules")));
  return jobs.Make(row);
}

TEST(InterNodeTest, CountsNicsTimesTheirSpeed) {
  const NodeLinks links = ParseInterNode("4x200Gb HDR IB per node (800Gb/s stated in config)");
  EXPECT_EQ(links.num_nics, 4);
  EXPECT_DOUBLE_EQ(links.nic_bandwidth_bytes_per_s, 200 * kGigabit);
  EXPECT_DOUBLE_EQ(links.node_bandwidth_bytes_per_s, 800 * kGigabit);
}

TEST(InterNodeTest, ASpeedPerNodeIsThatOfAllNics) {
  for (const char* text : {"1600Gb/s RoCE per node", "EFA 1600Gb/s per node"}) {
    const NodeLinks links = ParseInterNode(text);
    EXPECT_EQ(links.num_nics, 0) << text;
    EXPECT_DOUBLE_EQ(links.node_bandwidth_bytes_per_s, 1600 * kGigabit) << text;
  }
}

TEST(InterNodeTest, ASpeedAloneIsThatOfOneNic) {
  const NodeLinks links = ParseInterNode("InfiniBand 200Gb/s");
  EXPECT_DOUBLE_EQ(links.nic_bandwidth_bytes_per_s, 200 * kGigabit);
  EXPECT_DOUBLE_EQ(links.node_bandwidth_bytes_per_s, 0);
}

TEST(InterNodeTest, WordsWithoutANumberSayNothing) {
  const NodeLinks links = ParseInterNode("RDMA (speed not stated)");
  EXPECT_EQ(links.num_nics, 0);
  EXPECT_DOUBLE_EQ(links.nic_bandwidth_bytes_per_s, 0);
}

TEST(IntraNodeTest, DataSheetsCountBothDirections) {
  EXPECT_DOUBLE_EQ(ParseIntraNode("NVLink3 400GB/s"), 200e9);
  EXPECT_DOUBLE_EQ(ParseIntraNode("NVLink5 1800GB/s (NVL72 domain)"), 900e9);
  EXPECT_DOUBLE_EQ(ParseIntraNode("PCIe"), 0);
}

TEST(FitClusterTest, TheRowsLinksGoOverThoseOfTheCluster) {
  spec::ClusterSpec cluster = spec::LoadCluster("dgx-a100-80gb");
  FitCluster({.gpu = "A800",
              .num_devices = 64,
              .devices_per_node = 8,
              .intra_node = "NVLink3 400GB/s",
              .inter_node = "4x100Gb RoCE per node"},
             cluster);
  EXPECT_EQ(cluster.devices_per_node, 8);
  EXPECT_EQ(cluster.nics_per_node, 4);
  EXPECT_DOUBLE_EQ(cluster.intra_node.bandwidth_bytes_per_s, 200e9);
  EXPECT_DOUBLE_EQ(cluster.inter_node.bandwidth_bytes_per_s, 100 * kGigabit);
  EXPECT_FALSE(cluster.fabric.rail_nics);
}

TEST(FitClusterTest, ANodesSpeedIsMadeUpOfNicsOfTheClustersKind) {
  spec::ClusterSpec cluster = spec::LoadCluster("dgx-a100-80gb");  // NICs of 200 Gb/s
  FitCluster({.num_devices = 64, .devices_per_node = 8, .inter_node = "800Gb/s RoCE per node"},
             cluster);
  EXPECT_EQ(cluster.nics_per_node, 4);
  EXPECT_DOUBLE_EQ(cluster.inter_node.bandwidth_bytes_per_s, 200 * kGigabit);
}

TEST(FitClusterTest, AnNvlinkDomainSpansNodesThatKeepTheirNics) {
  spec::ClusterSpec cluster = spec::LoadCluster("gb200-nvl72");
  FitCluster({.num_devices = 256,
              .devices_per_node = 4,
              .nvlink_domain_size = 72,
              .intra_node = "NVLink5 1800GB/s (NVL72 domain)",
              .inter_node = "4x400Gb per 4-GPU tray (multi NVL72)"},
             cluster);
  EXPECT_EQ(cluster.devices_per_node, 4);
  EXPECT_EQ(cluster.devices_per_domain, 72);
  EXPECT_EQ(cluster.nics_per_node, 4);
  EXPECT_DOUBLE_EQ(cluster.inter_node.bandwidth_bytes_per_s, 400 * kGigabit);
}

TEST(FitClusterTest, ARowWithoutLinksKeepsThoseOfTheCluster) {
  const spec::ClusterSpec preset = spec::LoadCluster("dgx-h100");
  spec::ClusterSpec cluster = preset;
  FitCluster({.num_devices = 8}, cluster);
  EXPECT_EQ(cluster, preset);
}

TEST(ModelOfTest, AGateMakesALlamaAndItsAbsenceAGpt) {
  Measurement row = SmallRow();
  const spec::ModelSpec gpt = ModelOf(row);
  EXPECT_EQ(gpt.norm, spec::NormKind::kLayerNorm);
  EXPECT_EQ(gpt.activation, spec::ActivationKind::kGelu);
  EXPECT_TRUE(gpt.mlp_bias);
  EXPECT_EQ(gpt.head_dim, 128);
  EXPECT_EQ(gpt.num_key_value_heads, 16);

  row.model.gated_mlp = true;
  row.model.position = "rope";
  row.model.num_query_groups = 4;
  const spec::ModelSpec llama = ModelOf(row);
  EXPECT_EQ(llama.norm, spec::NormKind::kRmsNorm);
  EXPECT_EQ(llama.activation, spec::ActivationKind::kSwiGlu);
  EXPECT_FALSE(llama.mlp_bias);
  EXPECT_EQ(llama.num_key_value_heads, 4);
}

TEST(ModelOfTest, LayersBeforeTheExpertsAreDense) {
  Measurement row = SmallRow();
  row.model.num_experts = 64;
  row.model.moe_top_k = 6;
  row.model.moe_ffn_hidden_size = 1408;
  row.model.moe_shared_ffn_hidden_size = 2816;
  row.model.num_moe_layers = 23;
  row.flags = {"moe_token_drop"};
  const spec::ModelSpec model = ModelOf(row);
  ASSERT_TRUE(model.moe);
  EXPECT_EQ(model.moe->num_experts, 64);
  EXPECT_EQ(model.moe->experts_per_token, 6);
  EXPECT_EQ(model.moe->expert_ffn_hidden_size, 1408);
  EXPECT_EQ(model.moe->shared_expert_ffn_hidden_size, 2816);
  EXPECT_EQ(model.moe->num_leading_dense_layers, 1);
  EXPECT_DOUBLE_EQ(model.moe->capacity_factor, 1);
}

TEST(ModelOfTest, LatentAttentionSetsTheWidthOfHeads) {
  Measurement row = SmallRow();
  row.model.q_lora_rank = 1536;
  row.model.kv_lora_rank = 512;
  row.model.qk_nope_head_dim = 128;
  row.model.qk_rope_head_dim = 64;
  row.model.v_head_dim = 128;
  const spec::ModelSpec model = ModelOf(row);
  ASSERT_TRUE(model.mla);
  EXPECT_EQ(model.head_dim, 192);
  EXPECT_EQ(model.mla->q_lora_rank, 1536);
}

TEST(SlidingWindowTest, WordsSayHowManyLayersAttendToAll) {
  const auto window = ParseSlidingWindow("128 on alternate layers");
  ASSERT_TRUE(window);
  EXPECT_EQ(window->size, 128);
  EXPECT_EQ(window->full_attention_interval, 2);
  EXPECT_EQ(ParseSlidingWindow("4096")->full_attention_interval, 0);
  EXPECT_FALSE(ParseSlidingWindow(""));
  EXPECT_FALSE(ParseSlidingWindow("some"));
}

TEST(JobMakerTest, TheRowsLayoutIsTakenOver) {
  const MeasuredJob job = JobOf(SmallRow());
  ASSERT_EQ(job.skipped, "");
  ASSERT_EQ(job.choices.size(), 1u);
  EXPECT_THAT(job.choices[0].assumed, IsEmpty());
  const spec::ParallelSpec& parallel = job.choices[0].parallel;
  EXPECT_EQ(parallel.tensor_parallel_size, 2);
  EXPECT_EQ(parallel.pipeline_parallel_size, 2);
  EXPECT_EQ(parallel.data_parallel_size, 4);
  EXPECT_EQ(parallel.micro_batch_size, 2);
  EXPECT_EQ(parallel.recompute, spec::Recompute::kFull);
  EXPECT_EQ(parallel.attention, spec::AttentionKind::kUnfused);
  EXPECT_EQ(job.job.training.precision, spec::Precision::kFp16);
  EXPECT_EQ(job.job.num_devices, 16);
  EXPECT_EQ(job.job.cluster.device.name, "A100-SXM4-80GB");
}

// A program asked for flash attention whose kernel was another.
TEST(JobMakerTest, TheAttentionThatRanGoesBeforeTheOneAskedFor) {
  Measurement row = SmallRow();
  row.layout.flash_attention = true;
  const auto attention = [&] { return JobOf(row).choices.front().parallel.attention; };
  EXPECT_EQ(attention(), spec::AttentionKind::kFlash);
  row.layout.attention_kernel = "unfused local";
  EXPECT_EQ(attention(), spec::AttentionKind::kUnfused);
}

TEST(JobMakerTest, WhatTheRowLeavesOutIsTriedInEveryForm) {
  Measurement row = SmallRow();
  row.layout.recompute = "";
  row.layout.zero_stage.reset();
  // None; of an eighth, a quarter, half and all of the layers; of attention. Megatron-LM of 2021
  // shards nothing.
  EXPECT_EQ(JobOf(row).choices.size(), 6u);
  row.framework = "Megatron-DeepSpeed";  // with and without ZeRO-1
  const MeasuredJob job = JobOf(row);
  EXPECT_EQ(job.choices.size(), 12u);
  EXPECT_THAT(job.choices[0].assumed, ElementsAre("recompute none", "zero_stage 0"));

  row = SmallRow();
  row.layout.micro_batch_size.reset();
  EXPECT_EQ(JobOf(row).choices.size(), 5u);  // divisors of 64 / 4
}

TEST(JobMakerTest, SchedulesFollowTheRowsWords) {
  Measurement row = SmallRow();
  EXPECT_EQ(JobOf(row).choices[0].parallel.schedule, spec::ScheduleKind::kOneForwardOneBackward);
  row.layout.schedule = "gpipe";
  EXPECT_EQ(JobOf(row).choices[0].parallel.schedule, spec::ScheduleKind::kGPipe);
  row.layout.virtual_pipeline_size = 3;
  EXPECT_EQ(JobOf(row).choices[0].parallel.schedule, spec::ScheduleKind::kInterleaved);
}

TEST(JobMakerTest, AnUnstatedNumberOfChunksIsChosen) {
  Measurement row = SmallRow();
  row.layout.schedule = "interleaved-1f1b";  // 12 layers a stage
  std::vector<int> sizes;
  for (const LayoutChoice& choice : JobOf(row).choices) {
    sizes.push_back(choice.parallel.virtual_pipeline_size);
  }
  EXPECT_THAT(sizes, ElementsAre(2, 3, 4, 6, 12));
  EXPECT_THAT(JobOf(row).choices[0].assumed, ElementsAre("vpp 2"));
  row.layout.schedule = "";
  row.notes = "vpp not printed";
  EXPECT_EQ(JobOf(row).choices.size(), 6u);  // one chunk too
}

TEST(JobMakerTest, EmbeddingAndHeadTakeTheRoomOfALayerWhereTheModelLeavesIt) {
  Measurement row = SmallRow();
  row.model.num_layers = 30;  // 32 places on 4 stages
  row.layout.pipeline_parallel_size = 4;
  row.layout.data_parallel_size = 2;
  EXPECT_THAT(JobOf(row).choices[0].parallel.layers_per_virtual_stage, ElementsAre(7, 8, 8, 7));
  row.model.num_layers = 32;
  EXPECT_THAT(JobOf(row).choices[0].parallel.layers_per_virtual_stage, IsEmpty());
}

TEST(JobMakerTest, EverySecondLayerRecomputedIsHalfOfEachStage) {
  Measurement row = SmallRow();
  row.layout.recompute = "selective-layer";
  row.layout.recompute_modules = "every 2nd layer fully checkpointed";
  const spec::ParallelSpec parallel = JobOf(row).choices[0].parallel;
  EXPECT_EQ(parallel.recompute, spec::Recompute::kFull);
  EXPECT_THAT(parallel.recomputed_layers_per_virtual_stage, ElementsAre(6, 6));
}

TEST(JobMakerTest, AShareOfTheLayersIsSpreadOverTheChunksOfAStage) {
  Measurement row = SmallRow();
  row.layout.virtual_pipeline_size = 12;  // one layer a chunk, 12 chunks on each of two stages
  row.layout.recompute = "selective-layer";
  row.layout.recompute_modules = "every 2nd layer fully checkpointed";
  EXPECT_THAT(JobOf(row).choices[0].parallel.recomputed_layers_per_virtual_stage,
              ElementsAre(1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0));
}

TEST(JobMakerTest, GradientsAreSummedInTheTypeThatTravels) {
  Measurement row = SmallRow();
  row.layout.grad_dtype = "fp32 (main grads) / fp16 comm";
  EXPECT_EQ(JobOf(row).choices[0].parallel.gradient_reduce_type, base::DType::kFloat16);
  row.layout.grad_dtype = "fp32";
  EXPECT_EQ(JobOf(row).choices[0].parallel.gradient_reduce_type, base::DType::kFloat32);
}

TEST(JobMakerTest, NotesTurnOverlapOff) {
  Measurement row = SmallRow();
  row.layout.flash_attention = true;
  EXPECT_TRUE(JobOf(row).choices[0].parallel.overlap_grad_reduce);
  row.notes = "overlap disabled, mock data";
  EXPECT_FALSE(JobOf(row).choices[0].parallel.overlap_grad_reduce);
}

TEST(JobMakerTest, BlockScaledFormsOfEightBitsAreFp8) {
  Measurement row = SmallRow();
  row.hardware.gpu = "B200-180GB-SXM";
  for (const char* precision : {"fp8", "mxfp8", "fp8-rowwise"}) {
    row.layout.precision = precision;
    EXPECT_EQ(JobOf(row).job.training.precision, spec::Precision::kFp8) << precision;
  }
  row.layout.precision = "nvfp4";
  EXPECT_EQ(JobOf(row).job.training.precision, spec::Precision::kFp4);
}

TEST(JobMakerTest, AFrameworkHasItsRuntime) {
  Measurement row = SmallRow();
  EXPECT_EQ(JobOf(row).job.runtime.name, "megatron-lm-2021");  // without flash attention
  row.framework = "Megatron-DeepSpeed";
  EXPECT_EQ(JobOf(row).job.runtime.name, "megatron-deepspeed");
  row.framework = "NeMo/Megatron-Core";
  row.layout.flash_attention = true;
  EXPECT_EQ(JobOf(row).job.runtime.name, "megatron-core");
  row.framework = "llm-foundry (Composer+PyTorch FSDP)";
  EXPECT_EQ(JobOf(row).job.runtime.name, "llm-foundry");
}

TEST(JobMakerTest, ASourceHasTheProgramOfItsTime) {
  Measurement row = SmallRow();
  row.source = "Reducing Activation Recomputation (arXiv 2205.05198)";
  EXPECT_EQ(JobOf(row).job.runtime.name, "megatron-lm-2022");
  row.source = "Megatron-LM SC21 (arXiv 2104.04473)";
  EXPECT_EQ(JobOf(row).job.runtime.name, "megatron-lm-2021");
}

TEST(JobMakerTest, SumsOfLayersTimedApartRecomputeNothing) {
  Measurement row = SmallRow();
  row.framework = "Megatron-DeepSpeed";
  row.layout.recompute = "full";
  row.layout.tensor_parallel_size = 2;
  row.model.vocab_size = 50257;
  EXPECT_EQ(JobOf(row).choices[0].parallel.recompute, spec::Recompute::kFull);
  EXPECT_EQ(JobOf(row).job.model.vocab_size, 50257);
  row.flags = {"single_node_small_model"};
  const MeasuredJob measured = JobOf(row);
  EXPECT_TRUE(measured.job.runtime.layers_start_idle);
  EXPECT_EQ(measured.job.model.vocab_size, 50256);  // an equal share for both tensor ranks
  ASSERT_FALSE(measured.choices.empty());
  EXPECT_EQ(measured.choices[0].parallel.recompute, spec::Recompute::kNone);
}

TEST(JobMakerTest, ARowThatCannotBePricedSaysWhy) {
  Measurement row = SmallRow();
  row.hardware.gpu = "MI300X";
  EXPECT_THAT(JobOf(row).skipped, HasSubstr("MI300X"));
  row = SmallRow();
  row.layout.global_batch_size.reset();
  EXPECT_THAT(JobOf(row).skipped, HasSubstr("global batch size"));
  row = SmallRow();
  row.task = "lora";
  EXPECT_THAT(JobOf(row).skipped, HasSubstr("LoRA"));
  row = SmallRow();
  row.layout.precision = "int4";
  EXPECT_THAT(JobOf(row).skipped, HasSubstr("int4"));
  row = SmallRow();
  row.layout.precision = "fp8";  // an A100 has none
  EXPECT_THAT(JobOf(row).skipped, HasSubstr("fp8"));
}

TEST(PriceRowTest, TheFastestChoiceThatFitsIsAssumed) {
  JobMaker jobs(RowRules::Load(spec::PresetPath("measurements", "rules")));
  Measurement row = SmallRow();
  row.layout.recompute = "";
  row.layout.flash_attention = true;
  const RowResult small = PriceRow(row, jobs);
  EXPECT_TRUE(small.fits);
  EXPECT_THAT(small.assumed, ElementsAre("recompute none"));

  // 12 layers on two ranks keep about 34 bytes of 16 * 16384 tokens of width 2048: 109 GB a rank.
  row.layout.micro_batch_size = 16;
  row.model.sequence_length = 16384;
  const RowResult large = PriceRow(row, jobs);
  EXPECT_THAT(large.assumed, ElementsAre(StartsWith("recompute full")));
}

TEST(PriceRowTest, AModelFarBeyondTheMemoryDoesNotFit) {
  JobMaker jobs(RowRules::Load(spec::PresetPath("measurements", "rules")));
  Measurement row = SmallRow();
  row.ran_out_of_memory = true;
  row.model.num_layers = 96;
  row.model.hidden_size = 12288;
  row.model.ffn_hidden_size = 49152;
  row.model.num_attention_heads = 96;
  const RowResult result = PriceRow(row, jobs);
  EXPECT_TRUE(result.is_priced());
  EXPECT_FALSE(result.fits);
}

}  // namespace
}  // namespace tessera::planner
