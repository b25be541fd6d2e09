// Trainings with context-parallel ranks against an independent float64 program.
#include <gtest/gtest.h>

#include "tests/testing/golden_training.h"

namespace tessera::testing {
namespace {

using spec::ContextKind;

class ContextTrainingTest : public ::testing::TestWithParam<std::tuple<GoldenCase, ContextKind>> {
 protected:
  // Returns whether the layout divides the model.
  static bool Train(spec::ParallelSpec parallel,
                    spec::Precision precision = spec::Precision::kFp32) {
    const auto& [golden, kind] = GetParam();
    parallel.context_kind = kind;
    SCOPED_TRACE("cp " + std::to_string(parallel.context_parallel_size));
    engine::TrainOptions options = GoldenOptions(golden, parallel);
    options.plan.training.precision = precision;
    switch (precision) {
      case spec::Precision::kBf16:
        return TrainAndCompare(golden, options, kBf16Tolerance);
      case spec::Precision::kFp16:
        return TrainAndCompare(golden, options, kFp16Tolerance);
      default:
        return TrainAndCompare(golden, options);
    }
  }
};

TEST_P(ContextTrainingTest, RanksThatShareSequencesTrainAsTheReference) {
  EXPECT_TRUE(Train({.context_parallel_size = 2, .micro_batch_size = 2}));
  // Swapped heads must divide.
  const bool swaps = std::get<ContextKind>(GetParam()) == ContextKind::kAllToAll;
  EXPECT_TRUE(Train({.context_parallel_size = 4}) || swaps);
}

TEST_P(ContextTrainingTest, RecomputationTrainsAsTheReference) {
  for (const auto recompute : {spec::Recompute::kSelective, spec::Recompute::kFull}) {
    EXPECT_TRUE(Train({.context_parallel_size = 2, .recompute = recompute}));
  }
}

TEST_P(ContextTrainingTest, KeptProbabilitiesTrainAsTheReference) {
  const bool is_ring = std::get<ContextKind>(GetParam()) == ContextKind::kRing;
  EXPECT_EQ(Train({.context_parallel_size = 2,
                   .micro_batch_size = 2,
                   .attention = spec::AttentionKind::kUnfused}),
            !is_ring);
}

// Where two tensor ranks share a key/value head, heads cannot be swapped as well.
TEST_P(ContextTrainingTest, CombinedAxesTrainAsTheReference) {
  const bool swaps = std::get<ContextKind>(GetParam()) == ContextKind::kAllToAll;
  EXPECT_TRUE(Train({.tensor_parallel_size = 2,
                     .context_parallel_size = 2,
                     .micro_batch_size = 2,
                     .sequence_parallel = true}) ||
              swaps);
  EXPECT_TRUE(Train({.pipeline_parallel_size = 2, .context_parallel_size = 2}));
  EXPECT_TRUE(Train({.data_parallel_size = 2, .context_parallel_size = 2, .zero_stage = 0}));
  EXPECT_TRUE(Train({.tensor_parallel_size = 2,
                     .pipeline_parallel_size = 2,
                     .context_parallel_size = 2,
                     .recompute = spec::Recompute::kSelective}) ||
              swaps);
}

TEST_P(ContextTrainingTest, SixteenBitsTrainAsTheReference) {
  for (const auto precision : {spec::Precision::kBf16, spec::Precision::kFp16}) {
    EXPECT_TRUE(Train({.context_parallel_size = 2}, precision));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ContextTrainingTest,
                         ::testing::Combine(::testing::ValuesIn(LoadGoldenCases()),
                                            ::testing::Values(ContextKind::kRing,
                                                              ContextKind::kAllGather,
                                                              ContextKind::kAllToAll)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param).name + '_' +
                                              std::string(ToString(std::get<1>(test.param)));
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
