#include "tests/kernels/attention_parts.h"

namespace tessera::kernels::testing {
namespace {

using base::AttentionStats;
using reference::AttentionShape;

class AttentionPartsTest : public ::testing::TestWithParam<DType> {};

// Chunks shorter than a block of queries, longer, and neither; one sample and two; grouped queries.
struct Case {
  AttentionShape shape;
  int num_ranks;
};
constexpr Case kCases[] = {{{1, 8, 2, 2, 8, 0.35}, 2},
                           {{2, 24, 4, 2, 12, 0.3}, 3},
                           {{2, 280, 2, 1, 16, 0.25}, 4},
                           {{1, 132, 3, 3, 7, 0.4}, 2}};

TEST_P(AttentionPartsTest, TheRanksOfARingTogetherComputeTheWhole) {
  for (const auto& [shape, num_ranks] : kCases) {
    const WholeAttention whole(GetParam(), shape, num_ranks);
    for (const int num_threads : {1, 3}) ExpectRingIsWhole(*MakeCpuBackend(num_threads), whole);
  }
}

TEST_P(AttentionPartsTest, RanksThatSeeAllKeysTogetherComputeTheWhole) {
  for (const auto& [shape, num_ranks] : kCases) {
    const WholeAttention whole(GetParam(), shape, num_ranks);
    for (const auto stats : {AttentionStats::kLogSumExp, AttentionStats::kProbabilities}) {
      ExpectGatheredIsWhole(*MakeCpuBackend(2), whole, stats);
    }
  }
}

// On one rank, which has the whole, round a ring and with gathered keys.
TEST_P(AttentionPartsTest, AllPartsDropTheProbabilitiesThatTheWholeDrops) {
  for (const auto& [shape, num_ranks] : kCases) {
    for (const int ranks : {1, num_ranks}) {
      const WholeAttention whole(GetParam(), shape, ranks, {.dropout_probability = 0.3F});
      const auto backend = MakeCpuBackend(2);
      ExpectRingIsWhole(*backend, whole);
      for (const auto stats : {AttentionStats::kLogSumExp, AttentionStats::kProbabilities}) {
        ExpectGatheredIsWhole(*backend, whole, stats);
      }
    }
  }
}

// With documents in the samples: alone and with dropout.
TEST_P(AttentionPartsTest, AllPartsTogetherComputeEachDocumentApart) {
  for (const auto& [shape, num_ranks] : kCases) {
    for (const float dropout : {0.0F, 0.3F}) {
      for (const int ranks : {1, num_ranks}) {
        const WholeAttention whole(GetParam(), shape, ranks,
                                   {.dropout_probability = dropout, .has_documents = true});
        const auto backend = MakeCpuBackend(2);
        ExpectRingIsWhole(*backend, whole);
        for (const auto stats : {AttentionStats::kLogSumExp, AttentionStats::kProbabilities}) {
          ExpectGatheredIsWhole(*backend, whole, stats);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionPartsTest,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(ToString(type.param)); });

}  // namespace
}  // namespace tessera::kernels::testing
