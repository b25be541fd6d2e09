// Trainings in bf16 and fp16 with fp32 master weights, on the CPU, against the float64 program.
#include <gtest/gtest.h>

#include "tests/testing/golden_training.h"

namespace tessera::testing {
namespace {

class HalfTrainingTest : public ::testing::TestWithParam<std::tuple<GoldenCase, spec::Precision>> {
 protected:
  bool Train(const spec::ParallelSpec& parallel) const {
    const auto& [golden, precision] = GetParam();
    engine::TrainOptions options = GoldenOptions(golden, parallel);
    options.plan.training.precision = precision;
    return TrainAndCompare(golden, options,
                           precision == spec::Precision::kBf16 ? kBf16Tolerance : kFp16Tolerance);
  }
};

TEST_P(HalfTrainingTest, OneRankTrainsAsTheReference) {
  EXPECT_TRUE(Train({.attention = spec::AttentionKind::kUnfused}));
  EXPECT_TRUE(Train({.micro_batch_size = 2,
                     .recompute = spec::Recompute::kSelective,
                     .attention = spec::AttentionKind::kFlash}));
}

TEST_P(HalfTrainingTest, TensorParallelRanksTrainAsTheReference) {
  EXPECT_TRUE(Train({.tensor_parallel_size = 2}));
  EXPECT_TRUE(Train({.tensor_parallel_size = 2, .sequence_parallel = true}));
}

TEST_P(HalfTrainingTest, PipelineStagesTrainAsTheReference) {
  EXPECT_TRUE(Train({.pipeline_parallel_size = 2}));
}

TEST_P(HalfTrainingTest, DataParallelRanksTrainAsTheReference) {
  EXPECT_TRUE(Train({.data_parallel_size = 2, .zero_stage = 0}));
  EXPECT_TRUE(Train({.data_parallel_size = 2, .zero_stage = 1}));
}

TEST_P(HalfTrainingTest, CombinedAxesTrainAsTheReference) {
  EXPECT_TRUE(Train({.tensor_parallel_size = 2,
                     .pipeline_parallel_size = 2,
                     .data_parallel_size = 2,
                     .sequence_parallel = true,
                     .recompute = spec::Recompute::kFull,
                     .zero_stage = 1}));
}

INSTANTIATE_TEST_SUITE_P(Cases, HalfTrainingTest,
                         ::testing::Combine(::testing::ValuesIn(LoadGoldenCases()),
                                            ::testing::Values(spec::Precision::kBf16,
                                                              spec::Precision::kFp16)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param).name + '_' +
                                              std::string(ToString(std::get<1>(test.param)));
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
