// Trainings under every layout against an independent float64 program.
#include "tests/testing/golden_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/checkpoint/safetensors.h"
#include "tests/parity/mesh.h"
#include "tests/parity/tensor_norm.h"

namespace tessera::testing {
namespace {

// Trains under `parallel` and holds every step against the case; returns false when the layout does
// not divide the model.
bool RunAndCompare(const GoldenCase& golden, const spec::ParallelSpec& parallel,
                   const std::string& export_dir = "") {
  engine::TrainOptions options = GoldenOptions(golden, parallel);
  options.export_hf_dir = export_dir;
  return TrainAndCompare(golden, options);
}

// All variants of a mesh for one case. Returns how many ran.
int RunVariants(const GoldenCase& golden, const Mesh& mesh) {
  int num_runs = 0;
  for (const bool sequence_parallel : {false, true}) {
    if (sequence_parallel && mesh.tp == 1) continue;
    for (const int zero_stage : {0, 1, 2, 3}) {
      for (const int64_t micro_batch_size : {1, 2}) {
        // Of data ranks alone: ZeroParityTest has the other meshes.
        const bool is_data_parallel = mesh.dp > 1 && mesh.tp * mesh.pp == 1;
        if (zero_stage > 1 && (!is_data_parallel || micro_batch_size > 1)) continue;
        for (const auto recompute :
             {spec::Recompute::kNone, spec::Recompute::kSelective, spec::Recompute::kFull}) {
          const spec::ParallelSpec parallel{
              .tensor_parallel_size = mesh.tp,
              .pipeline_parallel_size = mesh.pp,
              .data_parallel_size = mesh.dp,
              .virtual_pipeline_size = mesh.vpp,
              .micro_batch_size = micro_batch_size,
              .sequence_parallel = sequence_parallel,
              .recompute = recompute,
              .zero_stage = zero_stage,
              .schedule = mesh.vpp > 1 ? spec::ScheduleKind::kInterleaved
                                       : spec::ScheduleKind::kOneForwardOneBackward,
              // Both kinds of attention take part without doubling the runs.
              .attention =
                  zero_stage == 0 ? spec::AttentionKind::kUnfused : spec::AttentionKind::kFlash};
          num_runs += RunAndCompare(golden, parallel) ? 1 : 0;
        }
      }
    }
  }
  return num_runs;
}

class GoldenTrainingTest : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTrainingTest, OneRankTrainsAsTheReference) {
  EXPECT_EQ(RunVariants(GetParam(), {}), 12);
}

TEST_P(GoldenTrainingTest, TensorParallelRanksTrainAsTheReference) {
  EXPECT_EQ(RunVariants(GetParam(), {.tp = 2}), 24);
  EXPECT_EQ(RunVariants(GetParam(), {.tp = 4}), 24);
}

TEST_P(GoldenTrainingTest, PipelineStagesTrainAsTheReference) {
  EXPECT_GT(RunVariants(GetParam(), {.pp = 2}), 0);
  RunVariants(GetParam(), {.pp = 4});  // more stages than one case has layers
  RunVariants(GetParam(), {.pp = 2, .vpp = 2});
}

TEST_P(GoldenTrainingTest, DataParallelRanksTrainAsTheReference) {
  EXPECT_GT(RunVariants(GetParam(), {.dp = 2}), 0);
  EXPECT_GT(RunVariants(GetParam(), {.dp = 4}), 0);
}

TEST_P(GoldenTrainingTest, CombinedAxesTrainAsTheReference) {
  EXPECT_GT(RunVariants(GetParam(), {.tp = 2, .pp = 2}), 0);
  EXPECT_GT(RunVariants(GetParam(), {.tp = 2, .dp = 2}), 0);
  EXPECT_GT(RunVariants(GetParam(), {.pp = 2, .dp = 2}), 0);
  EXPECT_GT(RunVariants(GetParam(), {.tp = 2, .pp = 2, .dp = 2}), 0);
  RunVariants(GetParam(), {.tp = 2, .pp = 2, .vpp = 2});
}

TEST_P(GoldenTrainingTest, GPipeTrainsAsTheReference) {
  spec::ParallelSpec parallel{.pipeline_parallel_size = 2, .schedule = spec::ScheduleKind::kGPipe};
  EXPECT_TRUE(RunAndCompare(GetParam(), parallel));
}

TEST_P(GoldenTrainingTest, UnevenStagesTrainAsTheReference) {
  spec::ParallelSpec parallel{.tensor_parallel_size = 2, .pipeline_parallel_size = 2};
  parallel.layers_per_virtual_stage = {1, GetParam().model.num_layers - 1};
  EXPECT_TRUE(RunAndCompare(GetParam(), parallel));
}

// A key bias without rotary positions shifts all scores of a query alike: its gradient is zero but
// for rounding, and so is what training makes of it.
bool HoldsKeyBiasOfNoEffect(const GoldenCase& golden, const std::string& name) {
  return golden.model.position != spec::PositionKind::kRope &&
         name.find("c_attn.bias") != std::string::npos;
}

TEST_P(GoldenTrainingTest, ExportedParametersHaveTheReferenceNorms) {
  const GoldenCase& golden = GetParam();
  const std::string dir =
      (std::filesystem::temp_directory_path() / ("tessera_golden_" + golden.name)).string();
  for (const spec::ParallelSpec& parallel :
       {spec::ParallelSpec{},
        spec::ParallelSpec{.tensor_parallel_size = 2,
        .pipeline_parallel_size = 2,
        .data_parallel_size = 2,
        .sequence_parallel = true},
        spec::ParallelSpec{.tensor_parallel_size = 4, .zero_stage = 0}}) {
    std::filesystem::remove_all(dir);
    ASSERT_TRUE(RunAndCompare(golden, parallel, dir));
    const engine::SafetensorsSet exported(dir);
    EXPECT_EQ(exported.tensors().size(), golden.final_parameter_norms.size());
    for (const auto& [name, expected] : golden.final_parameter_norms) {
      const engine::TensorView* view = exported.Find(name);
      ASSERT_NE(view, nullptr) << name;
      const double tolerance = HoldsKeyBiasOfNoEffect(golden, name) ? 1e-3 : kNormTolerance;
      ExpectClose(NormOf(*view), expected, tolerance, NameOf(parallel) + ": norm of " + name);
    }
  }
  std::filesystem::remove_all(dir);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTrainingTest, ::testing::ValuesIn(LoadGoldenCases()),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
