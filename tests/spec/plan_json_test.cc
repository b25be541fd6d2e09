#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "tests/spec/spec_json_files.h"

namespace tessera::spec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Every field differs from its default.
Plan FullPlan() {
  Plan plan;
  plan.model = {.name = "toy \"quoted\"",
                .norm = NormKind::kRmsNorm,
                .position = PositionKind::kRope,
                .activation = ActivationKind::kSwiGlu,
                .num_layers = 7,
                .hidden_size = 96,
                .num_attention_heads = 12,
                .num_key_value_heads = 4,
                .head_dim = 16,
                .ffn_hidden_size = 256,
                .vocab_size = 101,
                .max_sequence_length = 64,
                .qkv_bias = true,
                .attention_output_bias = true,
                .mlp_bias = true,
                .tied_embeddings = true,
                .norm_epsilon = 3e-7,
                .rope_theta = 1.0 / 3,
                .rope_scaling = RopeScaling{8, 2, 5, 4096},
                .moe = MoeSpec{8, 2, 64},
                .init_standard_deviation = 0.006};
  DeviceSpec& device = plan.cluster.device;
  plan.cluster.name = "rack";
  device = {.name = "chip",
            .memory_bytes = 85899345920,
            .reserved_memory_bytes = 12345,
            .memory_bandwidth_bytes_per_s = 2039e9,
            .peak_flops_per_s = {{base::DType::kFloat32, 19.5e12}, {base::DType::kFloat8, 1e15}},
            .launch_overhead_s = 3e-6,
            .matmul_efficiency = {{1e6, 0.1}, {1e9, 0.8}},
            .attention_efficiency = {{1e6, 0.2}},
            .memory_efficiency = {{1e3, 0.3}},
            .kernels = KernelSpec{.num_compute_units = 108,
                                  .largest_tile_rows = 256,
                                  .largest_tile_columns = 128,
                                  .smallest_tile = 64,
                                  .sustained_flops_per_s = {{base::DType::kFloat8, 9e14}},
                                  .tile_load_cost = 12,
                                  .tile_overhead_k = 64,
                                  .attention_forward_efficiency = 0.8,
                                  .attention_backward_efficiency = 0.7,
                                  .scores_per_s = 2e12,
                                  .host_s_per_kernel = 1e-5,
                                  .host_s_per_collective = 3e-5},
            .power_w = 400,
            .price_per_hour = 1.5};
  plan.cluster.devices_per_node = 8;
  plan.cluster.nics_per_node = 4;
  plan.cluster.intra_node = {300e9, 2e-6, 0.8, {{1e6, 0.5}}};
  plan.cluster.inter_node = {25e9, 5e-6, 0.7, {}};
  plan.cluster.shared_compute_units = 2;
  plan.cluster.max_devices = 64;
  plan.cluster.sources = {{"/device/memory_bytes", {"spec", "data sheet"}},
                          {"/device/peak_flops_per_s/fp32", {"spec", "data sheet"}},
                          {"/device/matmul_efficiency_by_flops", {"fitted", "a sweep"}},
                          {"/inter_node/efficiency", {"measured", "all-reduce"}},
                          {"/devices_per_node", {"assumed", "as most"}}};
  plan.training = {.global_batch_size = 48,
                   .sequence_length = 64,
                   .steps = 10,
                   .batch_ramp = BatchRamp{.start_batch_size = 16, .increment = 8, .samples = 100},
                   .precision = Precision::kFp8,
                   .seed = 18446744073709551615u,
                   .eod_token = 0,
                   .eod_mask_loss = true,
                   .reset_position_ids = true,
                   .reset_attention_mask = true,
                   .optimizer = {.lr = 0.01,
                                 .min_lr = 0.001,
                                 .lr_warmup_init = 0.002,
                                 .lr_warmup_steps = 3,
                                 .lr_decay_steps = 9,
                                 .lr_decay_style = LrDecayStyle::kWsd,
                                 .lr_wsd_decay_steps = 2,
                                 .lr_wsd_decay_style = WsdDecayStyle::kMinusSqrt,
                                 .adam_beta1 = 0.8,
                                 .adam_beta2 = 0.99,
                                 .adam_eps = 1e-6,
                                 .weight_decay = 0.2,
                                 .end_weight_decay = 0.3,
                                 .weight_decay_style = WeightDecayStyle::kCosine,
                                 .decay_embeddings = false,
                                 .clip_grad = 2},
                   .dropout = {.hidden = 0.1, .attention = 0.2, .embedding = 0.3}};
  plan.parallel = {.tensor_parallel_size = 2,
                   .pipeline_parallel_size = 3,
                   .data_parallel_size = 4,
                   .context_parallel_size = 2,
                   .expert_parallel_size = 2,
                   .virtual_pipeline_size = 2,
                   .micro_batch_size = 2,
                   .sequence_parallel = true,
                   .recompute = Recompute::kSelective,
                   .zero_stage = 2,
                   .schedule = ScheduleKind::kInterleaved,
                   .attention = AttentionKind::kUnfused,
                   .rank_order = "tp-pp-dp-cp-ep",
                   .layers_per_virtual_stage = {1, 1, 1, 1, 1, 2},
                   .vocab_size_multiple = 64,
                   .bucket_elements = 1000,
                   .overlap_grad_reduce = false};
  plan.num_devices = 48;
  plan.threads_per_rank = 3;
  return plan;
}

StepReport FullReport() {
  StepReport report;
  report.step_time_s = 2.5;
  report.tokens_per_s = 1000;
  report.tokens_per_s_per_device = 125;
  report.model_flops = 5e19;
  report.hardware_flops = 6e19;
  report.model_tflops_per_device = 140;
  report.hardware_tflops_per_device = 160;
  report.mfu = 0.45;
  report.hfu = 0.51;
  report.time = {0.25, 0.5, 0.25, 0.2, 0.05, 0.15, 0.04, 0.06, 0.5, 0.4, 0.1};
  report.stages = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
  report.peak_bytes = int64_t{40} << 30;  // more than a count may be
  return report;
}

class PlanJsonTest : public FileTest {
 protected:
  // What reading the plan says after one change of its text.
  std::string ErrorAfter(const std::string& from, const std::string& to) const {
    Plan plan = FullPlan();
    plan.prediction = FullReport();
    const std::string path = Write("plan.json", Replaced(WritePlan(plan), from, to));
    const std::string message = ConfigErrorOf([&] { ReadPlan(path); });
    EXPECT_THAT(message, StartsWith(path));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
};

TEST_F(PlanJsonTest, APlanReadsBackAsWritten) {
  Plan plan = FullPlan();
  plan.prediction = FullReport();
  const std::string path = Path("plan.json");
  WritePlanFile(plan, path);
  const Plan read = ReadPlan(path);
  EXPECT_EQ(read.model, plan.model);
  EXPECT_EQ(read.cluster, plan.cluster);
  EXPECT_EQ(read.training, plan.training);
  EXPECT_EQ(read.parallel, plan.parallel);
  EXPECT_EQ(read.num_devices, 48);
  EXPECT_EQ(read.threads_per_rank, 3);
  ASSERT_TRUE(read.prediction.has_value());
  EXPECT_EQ(read.prediction->stages[1].activations_bytes, 9);
  EXPECT_EQ(read.prediction->time.recompute_s, 0.25);
  EXPECT_EQ(WritePlan(read), WritePlan(plan));
}

TEST_F(PlanJsonTest, APlanWithoutPredictionReadsBackWithout) {
  WritePlanFile(FullPlan(), Path("plan.json"));
  EXPECT_FALSE(ReadPlan(Path("plan.json")).prediction.has_value());
}

TEST_F(PlanJsonTest, WritingLeavesNoOtherFileBehind) {
  WritePlanFile(FullPlan(), Path("plan.json"));
  WritePlanFile(FullPlan(), Path("plan.json"));
  const auto folder =
      std::filesystem::directory_iterator(std::filesystem::path(Path("plan.json")).parent_path());
  EXPECT_EQ(std::distance(begin(folder), end(folder)), 1);
}

TEST_F(PlanJsonTest, AFolderThatIsNotThereIsASystemError) {
  try {
    WritePlanFile(FullPlan(), Path("none/plan.json"));
    FAIL() << "no error";
  } catch (const base::SystemError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("open"), HasSubstr("none/plan.json")));
  }
}

TEST_F(PlanJsonTest, AnotherVersionIsRefusedBeforeAnythingElse) {
  const std::string message =
      ErrorAfter("\"format_version\": 1,", "\"format_version\": 2, \"new\": 1,");
  EXPECT_THAT(message,
              AllOf(HasSubstr("/format_version"), HasSubstr("found 2"), HasSubstr("expected 1")));
  EXPECT_THAT(ErrorAfter("\"format_version\": 1,", ""), HasSubstr("found nothing, expected 1"));
}

TEST_F(PlanJsonTest, AMisspeltKeyIsNamedWithTheKeyMeant) {
  EXPECT_THAT(ErrorAfter("\"micro_batch_size\"", "\"mico_batch_size\""),
              HasSubstr("/parallel/mico_batch_size: found an unknown key, expected "
                        "\"micro_batch_size\""));
}

TEST_F(PlanJsonTest, AKeyThatBreaksTheLineStaysInOneLineOfTheMessage) {
  EXPECT_THAT(ErrorAfter("\"micro_batch_size\"", "\"micro\\nbatch_size\""),
              HasSubstr("/parallel/micro?batch_size: found an unknown key"));
}

TEST_F(PlanJsonTest, AMissingKeyIsNamed) {
  EXPECT_THAT(ErrorAfter("\"adam_beta1\": 0.8,", ""),
              HasSubstr("/training/optimizer/adam_beta1: found nothing, expected a number"));
}

TEST_F(PlanJsonTest, ARepeatedKeyIsNamed) {
  EXPECT_THAT(ErrorAfter("\"zero_stage\": 2,", "\"zero_stage\": 2, \"zero_stage\": 1,"),
              HasSubstr("/parallel/zero_stage: found the key a second time"));
  EXPECT_THAT(ErrorAfter("\"weights_bytes\": 6,", "\"weights_bytes\": 6, \"weights_bytes\": 6,"),
              HasSubstr("/prediction/memory/stages/1/weights_bytes: found the key a second time"));
}

TEST_F(PlanJsonTest, AValueOfAnotherTypeIsNamed) {
  EXPECT_THAT(ErrorAfter("\"sequence_parallel\": true", "\"sequence_parallel\": \"yes\""),
              HasSubstr("/parallel/sequence_parallel: found \"yes\", expected true or false"));
  EXPECT_THAT(ErrorAfter("\"num_layers\": 7", "\"num_layers\": 7.5"),
              HasSubstr("/model/num_layers: found 7.5, expected an integer of at least 1"));
  EXPECT_THAT(ErrorAfter("\"num_layers\": 7", "\"num_layers\": null"),
              HasSubstr("/model/num_layers: found null"));
}

TEST_F(PlanJsonTest, AnUnknownModeListsTheKnownOnes) {
  EXPECT_THAT(ErrorAfter("\"selective\"", "\"some\""),
              HasSubstr("/parallel/recompute: found \"some\", expected \"none\", \"selective\" or "
                        "\"full\""));
}

TEST_F(PlanJsonTest, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(ErrorAfter("\"num_layers\": 7", "\"num_layers\": -7"), HasSubstr("found -7"));
  EXPECT_THAT(ErrorAfter("\"num_layers\": 7", "\"num_layers\": 30000000000"),
              HasSubstr("at most 2147483647"));
  EXPECT_THAT(ErrorAfter("\"num_layers\": 7", "\"num_layers\": 99999999999999999999"),
              HasSubstr("/model/num_layers"));
  EXPECT_THAT(ErrorAfter("\"step_time_s\": 2.5", "\"step_time_s\": 1e999"), HasSubstr("1e999"));
}

TEST_F(PlanJsonTest, BrokenSyntaxNamesLineAndColumn) {
  const std::string path = Write("plan.json", "{\n  \"format_version\": 1,\n  \"model\": }\n}\n");
  EXPECT_THAT(ConfigErrorOf([&] { ReadPlan(path); }),
              StartsWith(path + ": line 3, column 12: syntax error"));
  EXPECT_THAT(ConfigErrorOf([&] { ReadPlan(Write("cut.json", "{\"format_version\": 1,")); }),
              HasSubstr("line 1, column 22"));
  EXPECT_THAT(ConfigErrorOf([&] { ReadPlan(Write("empty.json", "")); }), HasSubstr("line 1"));
}

TEST_F(PlanJsonTest, EveryTruncationOfAPlanIsRefused) {
  const std::string text = WritePlan(FullPlan());
  for (std::size_t length = 0; length + 2 < text.size(); length += 37) {
    const std::string path = Write("plan.json", text.substr(0, length));
    EXPECT_NE(ConfigErrorOf([&] { ReadPlan(path); }), "") << length;
  }
}

TEST_F(PlanJsonTest, DeepNestingIsRefusedWithoutExhaustingTheStack) {
  const std::string path = Write("plan.json", std::string(200000, '[') + std::string(200000, ']'));
  EXPECT_NE(ConfigErrorOf([&] { ReadPlan(path); }), "");
}

TEST_F(PlanJsonTest, AMissingFileIsNamed) {
  EXPECT_THAT(ConfigErrorOf([&] { ReadPlan(Path("none.json")); }), HasSubstr("none.json"));
}

TEST(StepReportJsonTest, TheSecondsOfTheTimeSectionSumToTheStep) {
  const std::string text = WriteStepReport(FullReport(), -1);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("\"compute\":{\"forward_s\":0.25,\"backward_s\":0.5,"
                              "\"recompute_s\":0.25}"));
  // 0.25 + 0.5 + 0.25, which lies outside the section.
  EXPECT_THAT(text, HasSubstr("\"time\":{\"compute_s\":1.0,\"tp_comm_s\":0.2,\"pp_comm_s\":0.05,"
                              "\"dp_comm_s\":0.15,\"cp_comm_s\":0.04,\"ep_comm_s\":0.06,"
                              "\"bubble_s\":0.5,\"optimizer_s\":0.4,\"other_s\":0.1}"));
}

}  // namespace
}  // namespace tessera::spec
