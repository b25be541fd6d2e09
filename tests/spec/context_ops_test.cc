// Attention spread over context-parallel ranks: the work of all ranks together is the whole
// sequence's, and the bytes sent are those of keys and values.
#include <gtest/gtest.h>

#include <map>

#include "cost_model/spec/kept_tensors.h"
#include "cost_model/spec/op_list.h"

namespace tessera::spec {
namespace {

using base::OpKind;

// Eight heads of 16 with four key/value heads.
ModelSpec GroupedQueries() {
  return {.name = "toy",
          .norm = NormKind::kRmsNorm,
          .position = PositionKind::kRope,
          .activation = ActivationKind::kSwiGlu,
          .num_layers = 1,
          .hidden_size = 128,
          .num_attention_heads = 8,
          .num_key_value_heads = 4,
          .head_dim = 16,
          .ffn_hidden_size = 256,
          .vocab_size = 128,
          .max_sequence_length = 1024};
}

ParallelSpec TwoSampleContext(int cp, ContextKind kind) {
  ParallelSpec parallel;
  parallel.context_parallel_size = cp;
  parallel.context_kind = kind;
  parallel.micro_batch_size = 2;
  return parallel;
}

std::vector<Op> LayerOps(const ParallelSpec& parallel, bool is_backward,
                         std::optional<int> rank = std::nullopt) {
  const TrainingSpec training{.global_batch_size = 2, .sequence_length = 1024};
  const VirtualStage stage{.num_layers = 1};
  return is_backward ? StageBackwardOps(GroupedQueries(), training, parallel, stage, rank)
                     : StageForwardOps(GroupedQueries(), training, parallel, stage, rank);
}

double AttentionFlops(const std::vector<Op>& ops) {
  double flops = 0;
  for (const Op& op : ops) {
    const bool is_attention =
        op.record.kind == OpKind::kAttentionForward || op.record.kind == OpKind::kAttentionBackward;
    if (is_attention) flops += FlopsOf(op.record);
  }
  return flops;
}

int64_t ElementsOf(const std::vector<Op>& ops, OpKind kind) {
  int64_t elements = 0;
  for (const Op& op : ops) {
    if (op.record.kind == kind) elements += op.record.dims[0];
  }
  return elements;
}

// Each rank, and so the one that is priced, has its even share.
TEST(ContextParallelTest, AllRanksTogetherDoTheWorkOfTheWholeCausalSequence) {
  for (const bool is_backward : {false, true}) {
    const double whole = AttentionFlops(LayerOps(ParallelSpec{.micro_batch_size = 2}, is_backward));
    for (const auto kind : {ContextKind::kRing, ContextKind::kAllGather, ContextKind::kAllToAll}) {
      for (const int cp : {2, 4}) {
        const ParallelSpec parallel = TwoSampleContext(cp, kind);
        EXPECT_DOUBLE_EQ(cp * AttentionFlops(LayerOps(parallel, is_backward)), whole)
            << ToString(kind) << " cp " << cp;
        for (int rank = 0; rank < cp; ++rank) {
          EXPECT_DOUBLE_EQ(cp * AttentionFlops(LayerOps(parallel, is_backward, rank)), whole)
              << ToString(kind) << " rank " << rank << " of " << cp;
        }
      }
    }
  }
}

// Products, norms and the rest work on 1 / cp of the tokens.
TEST(ContextParallelTest, EveryOtherProductShrinksWithTheTokens) {
  const auto products = [](const std::vector<Op>& ops) {
    double flops = 0;
    for (const Op& op : ops) {
      if (op.record.kind == OpKind::kMatMul) flops += FlopsOf(op.record);
    }
    return flops;
  };
  const double whole = products(LayerOps(ParallelSpec{.micro_batch_size = 2}, false));
  EXPECT_DOUBLE_EQ(4 * products(LayerOps(TwoSampleContext(4, ContextKind::kRing), false)), whole);
}

// Two sequences, 256 tokens of each here, four key and four value heads of 16. Forward they travel
// three times to be seen by four ranks; backward as often, and their gradients three times as well.
TEST(ContextParallelTest, RingsPassKeysAndValuesOnAndGradientsHome) {
  const ParallelSpec ring = TwoSampleContext(4, ContextKind::kRing);
  constexpr int64_t kKeysAndValues = 2 * 256 * 2 * 4 * 16;
  EXPECT_EQ(ElementsOf(LayerOps(ring, false), OpKind::kSend), 3 * kKeysAndValues);
  EXPECT_EQ(ElementsOf(LayerOps(ring, true), OpKind::kSend), 6 * kKeysAndValues);
}

// Of 16-bit training: keys and values travel in 16 bits, sums of gradients in 32.
TEST(ContextParallelTest, GradientsTravelInFp32) {
  std::map<int64_t, int> sends;  // by bytes of an element
  const TrainingSpec training{
      .global_batch_size = 2, .sequence_length = 1024, .precision = Precision::kBf16};
  for (const Op& op :
       StageBackwardOps(GroupedQueries(), training, TwoSampleContext(4, ContextKind::kRing),
                        {.num_layers = 1})) {
    if (op.record.kind == OpKind::kSend) ++sends[op.record.dims[3]];
  }
  EXPECT_EQ(sends, (std::map<int64_t, int>{{2, 3}, {4, 3}}));
}

// The softmax again, on queries, keys and values that are still swapped.
TEST(ContextParallelTest, SelectiveRecomputationSwapsNothingAgain) {
  ParallelSpec swap = TwoSampleContext(4, ContextKind::kAllToAll);
  const std::vector<Op> kept = LayerOps(swap, /*is_backward=*/true);
  swap.recompute = Recompute::kSelective;
  const std::vector<Op> again = LayerOps(swap, /*is_backward=*/true);
  EXPECT_EQ(again.size(), kept.size() + 1);
  EXPECT_EQ(ElementsOf(again, OpKind::kAllToAll), ElementsOf(kept, OpKind::kAllToAll));
}

TEST(ContextParallelTest, GatheringHoldsKeysAndValuesOfAllRanks) {
  const ParallelSpec gather = TwoSampleContext(4, ContextKind::kAllGather);
  constexpr int64_t kAllKeysAndValues = 2 * 1024 * 2 * 4 * 16;
  EXPECT_EQ(ElementsOf(LayerOps(gather, false), OpKind::kAllGather), kAllKeysAndValues);
  EXPECT_EQ(ElementsOf(LayerOps(gather, true), OpKind::kAllGather), kAllKeysAndValues);
  EXPECT_EQ(ElementsOf(LayerOps(gather, true), OpKind::kReduceScatter), kAllKeysAndValues);
}

// Queries of eight heads, keys and values of four each; the output of eight.
TEST(ContextParallelTest, SwappingSendsQueriesKeysValuesAndTheOutput) {
  const ParallelSpec swap = TwoSampleContext(4, ContextKind::kAllToAll);
  constexpr int64_t kEachHead = 2 * 256 * 16;
  for (const bool is_backward : {false, true}) {
    EXPECT_EQ(ElementsOf(LayerOps(swap, is_backward), OpKind::kAllToAll),
              (8 + 4 + 4 + 8) * kEachHead);
  }
}

// What a layer keeps is one number or another for each of its tokens.
TEST(ContextParallelTest, HalfTheTokensKeepHalfTheActivations) {
  const TrainingSpec training{.global_batch_size = 2, .sequence_length = 1024};
  const ModelSpec model = GroupedQueries();
  const VirtualStage stage{.num_layers = 1};
  const auto bytes = [&](int cp) {
    return KeptBytesOf(model, training, TwoSampleContext(cp, ContextKind::kRing), stage, {})
        .saved_bytes;
  };
  EXPECT_EQ(2 * bytes(2), bytes(1));
  EXPECT_EQ(2 * bytes(4), bytes(2));
}

}  // namespace
}  // namespace tessera::spec
