#include "tests/kernels/sequence_parts.h"

namespace tessera::kernels::testing {
namespace {

class SequencePartsTest : public ::testing::TestWithParam<DType> {};

TEST_P(SequencePartsTest, TokensKeepTheirPositions) {
  for (const int num_threads : {1, 3}) {
    ExpectTokensKeepTheirPositions(*MakeCpuBackend(num_threads), GetParam());
  }
}

TEST_P(SequencePartsTest, PositionsCountFromDocuments) {
  for (const int num_threads : {1, 3}) {
    ExpectPositionsCountFromDocuments(*MakeCpuBackend(num_threads), GetParam());
  }
}

TEST_P(SequencePartsTest, RowsAreCopiedToEveryType) {
  for (const DType to : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    ExpectRowsAreCopied(*MakeCpuBackend(2), GetParam(), to);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SequencePartsTest,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(ToString(type.param)); });

}  // namespace
}  // namespace tessera::kernels::testing
