// Trainings of mixtures of experts under every way to spread them, against an independent float64
// program.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/checkpoint/safetensors.h"
#include "tests/parity/tensor_norm.h"
#include "tests/testing/golden_training.h"

namespace tessera::testing {
namespace {

struct NamedLayout {
  const char* name;
  spec::ParallelSpec parallel;
};

// Experts on one rank, over data, tensor and both kinds of ranks, whole and cut, beside pipelines.
std::vector<NamedLayout> Layouts() {
  using spec::Recompute;
  return {
      {"one rank", {.micro_batch_size = 2}},
      {"dp", {.data_parallel_size = 2, .micro_batch_size = 2}},
      {"ep2",
       {.data_parallel_size = 2, .expert_parallel_size = 2, .recompute = Recompute::kSelective}},
      {"ep4, full recomputation",
       {.data_parallel_size = 4,
        .expert_parallel_size = 4,
        .micro_batch_size = 2,
        .recompute = Recompute::kFull}},
      {"ep2 in dp4, unsharded",
       {.data_parallel_size = 4, .expert_parallel_size = 2, .zero_stage = 0}},
      {"tp as etp", {.tensor_parallel_size = 2, .micro_batch_size = 2, .sequence_parallel = true}},
      {"ep over tp",
       {.tensor_parallel_size = 2,
        .expert_parallel_size = 2,
        .expert_tensor_parallel_size = 1,
        .sequence_parallel = true}},
      {"experts whole on each tensor rank",
       {.tensor_parallel_size = 2,
        .expert_tensor_parallel_size = 1,
        .micro_batch_size = 2,
        .sequence_parallel = true,
        .recompute = Recompute::kFull}},
      {"etp2 ep2",
       {.tensor_parallel_size = 2,
        .data_parallel_size = 2,
        .expert_parallel_size = 2,
        .sequence_parallel = true}},
      {"etp over dp",
       {.data_parallel_size = 2, .expert_tensor_parallel_size = 2, .micro_batch_size = 2}},
      {"ep over cp",
       {.context_parallel_size = 2, .expert_parallel_size = 2, .micro_batch_size = 2}},
      {"ep over cp and tp, heads swapped",
       {.tensor_parallel_size = 2,
        .context_parallel_size = 2,
        .expert_parallel_size = 4,
        .expert_tensor_parallel_size = 1,
        .micro_batch_size = 2,
        .sequence_parallel = true,
        .recompute = Recompute::kFull,
        .context_kind = spec::ContextKind::kAllToAll}},
      {"pp", {.pipeline_parallel_size = 2, .recompute = Recompute::kFull}},
      {"pp2 ep2 tp2",
       {.tensor_parallel_size = 2,
        .pipeline_parallel_size = 2,
        .data_parallel_size = 2,
        .expert_parallel_size = 4,
        .expert_tensor_parallel_size = 1,
        .sequence_parallel = true}},
  };
}

class ExpertTrainingTest : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(ExpertTrainingTest, EveryLayoutTrainsAsTheReference) {
  for (const NamedLayout& layout : Layouts()) {
    SCOPED_TRACE(layout.name);
    EXPECT_TRUE(TrainAndCompare(GetParam(), GoldenOptions(GetParam(), layout.parallel)));
  }
}

// As many rows for each expert as there are tokens: none is dropped, and the experts are filled up
// with rows of zeros.
TEST_P(ExpertTrainingTest, ACapacityThatDropsNothingChangesNothing) {
  for (const NamedLayout& layout : Layouts()) {
    SCOPED_TRACE(layout.name);
    engine::TrainOptions options = GoldenOptions(GetParam(), layout.parallel);
    const spec::MoeSpec& moe = *options.plan.model.moe;
    options.plan.model.moe->capacity_factor =
        static_cast<double>(moe.num_experts) / moe.experts_per_token;
    EXPECT_TRUE(TrainAndCompare(GetParam(), options));
  }
}

TEST_P(ExpertTrainingTest, ExportedParametersHaveTheReferenceNorms) {
  const GoldenCase& golden = GetParam();
  const std::string dir =
      (std::filesystem::temp_directory_path() / ("tessera_experts_" + golden.name)).string();
  for (const NamedLayout& layout : Layouts()) {
    if (layout.parallel.expert_parallel_size == 1) continue;
    SCOPED_TRACE(layout.name);
    std::filesystem::remove_all(dir);
    engine::TrainOptions options = GoldenOptions(golden, layout.parallel);
    options.export_hf_dir = dir;
    ASSERT_TRUE(TrainAndCompare(golden, options));
    const engine::SafetensorsSet exported(dir);
    EXPECT_EQ(exported.tensors().size(), golden.final_parameter_norms.size());
    for (const auto& [name, expected] : golden.final_parameter_norms) {
      const engine::TensorView* view = exported.Find(name);
      ASSERT_NE(view, nullptr) << name;
      ExpectClose(NormOf(*view), expected, kNormTolerance, "norm of " + name);
    }
  }
  std::filesystem::remove_all(dir);
}

INSTANTIATE_TEST_SUITE_P(Cases, ExpertTrainingTest, ::testing::ValuesIn(LoadExpertGoldenCases()),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
