// A device without arithmetic: what it is asked to hold and to hand over counts, what it computes
// does not. Its memory is the host's, but nobody may know.
#pragma once

#include <memory>

#include "engine/device/rank_device.h"

namespace tessera::testing {

class CountingBackend : public kernels::Backend {
 public:
  void* Allocate(size_t bytes) override;
  void Free(void* memory, size_t bytes) override;
  void CopyToDevice(void* device, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* device, size_t bytes) override;
  void Synchronize() override {}

 protected:
  void DoMatMul(const kernels::MatMulArgs& /*args*/) override {}
  void DoLayerNormForward(const kernels::NormForwardArgs& /*args*/) override {}
  void DoLayerNormBackward(const kernels::NormBackwardArgs& /*args*/) override {}
  void DoRmsNormForward(const kernels::NormForwardArgs& /*args*/) override {}
  void DoRmsNormBackward(const kernels::NormBackwardArgs& /*args*/) override {}
  void DoResidualAdd(const kernels::ResidualAddArgs& /*args*/) override {}
  void DoBiasGrad(const kernels::BiasGradArgs& /*args*/) override {}
  void DoSwiGluForward(const kernels::SwiGluForwardArgs& /*args*/) override {}
  void DoSwiGluBackward(const kernels::SwiGluBackwardArgs& /*args*/) override {}
  void DoRope(const kernels::RopeArgs& /*args*/) override {}
  void DoAttentionForward(const kernels::AttentionForwardArgs& /*args*/) override {}
  void DoAttentionBackward(const kernels::AttentionBackwardArgs& /*args*/) override {}
  void DoEmbeddingForward(const kernels::EmbeddingForwardArgs& /*args*/) override {}
  void DoEmbeddingBackward(const kernels::EmbeddingBackwardArgs& /*args*/) override {}
  void DoPositionForward(const kernels::PositionForwardArgs& /*args*/) override {}
  void DoPositionBackward(const kernels::PositionBackwardArgs& /*args*/) override {}
  void DoCrossEntropyMax(const kernels::CrossEntropyMaxArgs& /*args*/) override {}
  void DoCrossEntropySumExp(const kernels::CrossEntropySumExpArgs& /*args*/) override {}
  void DoCrossEntropyGrad(const kernels::CrossEntropyGradArgs& /*args*/) override {}
  void DoSumOfSquares(const kernels::SumOfSquaresArgs& /*args*/) override {}
  void DoAdamW(const kernels::AdamWArgs& /*args*/) override {}
  void DoScale(kernels::Array /*x*/, int64_t /*n*/, float /*factor*/) override {}
  void DoAdd(kernels::ConstArray /*x*/, kernels::Array /*y*/, int64_t /*n*/) override {}
  void DoFill(kernels::Array /*x*/, int64_t /*n*/, float /*value*/) override {}
  void DoCopy(kernels::ConstArray /*source*/, kernels::Array /*destination*/,
              int64_t /*n*/) override {}
  void DoCast(kernels::ConstArray /*source*/, kernels::Array /*destination*/,
              int64_t /*n*/) override {}
  void DoCopyRows(const kernels::CopyRowsArgs& /*args*/) override {}
  void DoDropout(const kernels::DropoutArgs& /*args*/) override {}
  void DoGroupedMatMul(const kernels::GroupedMatMulArgs& /*args*/) override {}
  void DoGroupedBiasGrad(const kernels::GroupedBiasGradArgs& /*args*/) override {}
  // Rows choose experts in turn: where rows go is read back.
  void DoRouterForward(const kernels::RouterForwardArgs& args) override;
  void DoExpertCount(const kernels::ExpertCountArgs& /*args*/) override {}
  void DoRouterBackward(const kernels::RouterBackwardArgs& /*args*/) override {}
  void DoWeightedGeluForward(const kernels::WeightedGeluForwardArgs& /*args*/) override {}
  void DoWeightedGeluBackward(const kernels::WeightedGeluBackwardArgs& /*args*/) override {}
  void DoTokenPermute(const kernels::TokenPermuteArgs& /*args*/) override {}
  void DoTokenUnpermute(const kernels::TokenUnpermuteArgs& /*args*/) override {}
  void DoLogSumExpMerge(const kernels::LogSumExpMergeArgs& /*args*/) override {}
  void DoSumBlocks(const kernels::SumBlocksArgs& /*args*/) override {}
};

// Its world is the host's.
std::unique_ptr<engine::RankDevice> MakeCountingDevice(engine::Communicator& host_world);

}  // namespace tessera::testing
