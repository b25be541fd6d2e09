// Parts of attention on CUDA cores and on tensor cores (heads of 16 take the latter in 16 bits),
// and what else is done on parts of sequences.
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_resources.h"
#include "tests/kernels/attention_parts.h"
#include "tests/kernels/sequence_parts.h"

namespace tessera::kernels::testing {
namespace {

using base::AttentionStats;
using reference::AttentionShape;

class PartsKernelTest : public ::testing::TestWithParam<DType> {
 protected:
  PartsKernelTest() : workspace_(cuda::kLeastScratchBytes) {
    backend_.AttachWorkspace(workspace_.data(), cuda::kLeastScratchBytes);
  }

  cuda::CudaBackend backend_{{}};
  cuda::DeviceMemory workspace_;
};

// Chunks shorter than a tile, longer, and neither; grouped queries; rows that are no quads.
struct RingCase {
  AttentionShape shape;
  int num_ranks;
};
constexpr RingCase kRingCases[] = {{{1, 8, 2, 2, 16, 0.25}, 2},
                                   {{2, 36, 4, 2, 16, 0.25}, 3},
                                   {{1, 296, 2, 1, 64, 0.12}, 2},
                                   {{2, 88, 2, 1, 7, 0.4}, 2}};

TEST_P(PartsKernelTest, TheRanksOfARingTogetherComputeTheWhole) {
  for (const auto& [shape, num_ranks] : kRingCases) {
    ExpectRingIsWhole(backend_, WholeAttention(GetParam(), shape, num_ranks));
  }
}

TEST_P(PartsKernelTest, RanksThatSeeAllKeysTogetherComputeTheWhole) {
  for (const auto& [shape, num_ranks] : kRingCases) {
    const WholeAttention whole(GetParam(), shape, num_ranks);
    ExpectGatheredIsWhole(backend_, whole, AttentionStats::kLogSumExp);
    if (shape.sequence < 100) {
      ExpectGatheredIsWhole(backend_, whole, AttentionStats::kProbabilities);
    }
  }
}

TEST_P(PartsKernelTest, AllPartsDropTheProbabilitiesThatTheWholeDrops) {
  for (const auto& [shape, num_ranks] : kRingCases) {
    for (const int ranks : {1, num_ranks}) {
      const WholeAttention whole(GetParam(), shape, ranks, {.dropout_probability = 0.3F});
      ExpectRingIsWhole(backend_, whole);
      ExpectGatheredIsWhole(backend_, whole, AttentionStats::kLogSumExp);
      if (shape.sequence < 100) {
        ExpectGatheredIsWhole(backend_, whole, AttentionStats::kProbabilities);
      }
    }
  }
}

TEST_P(PartsKernelTest, AllPartsTogetherComputeEachDocumentApart) {
  for (const auto& [shape, num_ranks] : kRingCases) {
    for (const int ranks : {1, num_ranks}) {
      const WholeAttention whole(
          GetParam(), shape, ranks,
          {.dropout_probability = ranks == 1 ? 0.3F : 0.0F, .has_documents = true});
      ExpectRingIsWhole(backend_, whole);
      ExpectGatheredIsWhole(backend_, whole, AttentionStats::kLogSumExp);
      if (shape.sequence < 100) {
        ExpectGatheredIsWhole(backend_, whole, AttentionStats::kProbabilities);
      }
    }
  }
}

TEST_P(PartsKernelTest, PositionsCountFromDocuments) {
  ExpectPositionsCountFromDocuments(backend_, GetParam());
}

TEST_P(PartsKernelTest, TokensKeepTheirPositions) {
  ExpectTokensKeepTheirPositions(backend_, GetParam());
}

TEST_P(PartsKernelTest, RowsAreCopiedToEveryType) {
  for (const DType to : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    ExpectRowsAreCopied(backend_, GetParam(), to);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PartsKernelTest,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(ToString(type.param)); });

}  // namespace
}  // namespace tessera::kernels::testing
