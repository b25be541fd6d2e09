// Mixtures of experts, latent attention, windows and multi-token layers: parameters, operations,
// FLOPs and saved tensors against hand counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cost_model/spec/op_list.h"

namespace tessera::spec {
namespace {

using base::OpKind;
using base::OpRecord;

// A small model of experts: 2 dense layers, then 2 of 8 experts, top 2, with a shared expert.
ModelSpec Mixture() {
  ModelSpec model;
  model.norm = NormKind::kRmsNorm;
  model.position = PositionKind::kRope;
  model.activation = ActivationKind::kSwiGlu;
  model.num_layers = 4;
  model.hidden_size = 64;
  model.num_attention_heads = 8;
  model.num_key_value_heads = 4;
  model.head_dim = 16;
  model.ffn_hidden_size = 256;
  model.vocab_size = 1000;
  model.max_sequence_length = 128;
  model.moe = MoeSpec{.num_experts = 8,
                      .experts_per_token = 2,
                      .expert_ffn_hidden_size = 96,
                      .shared_expert_ffn_hidden_size = 32,
                      .num_leading_dense_layers = 2};
  return model;
}

ModelSpec Latent() {
  ModelSpec model = Mixture();
  model.moe.reset();
  model.num_key_value_heads = 8;
  model.head_dim = 24;
  model.mla = MlaSpec{.q_lora_rank = 40,
                      .kv_lora_rank = 20,
                      .qk_nope_head_dim = 16,
                      .qk_rope_head_dim = 8,
                      .v_head_dim = 12};
  return model;
}

TrainingSpec Batch(int64_t sequence = 128) {
  TrainingSpec training;
  training.global_batch_size = 8;
  training.sequence_length = sequence;
  training.precision = Precision::kBf16;
  return training;
}

ParallelSpec MakeLayout(int tp, int ep = 1, int etp = 0) {
  ParallelSpec parallel;
  parallel.tensor_parallel_size = tp;
  parallel.sequence_parallel = tp > 1;
  parallel.data_parallel_size = 8;
  parallel.expert_parallel_size = ep;
  parallel.expert_tensor_parallel_size = etp;
  return parallel;
}

constexpr LayerForm kExperts{.has_experts = true};

std::vector<OpRecord> RecordsOf(const std::vector<Op>& ops) {
  std::vector<OpRecord> records;
  for (const Op& op : ops) records.push_back(op.record);
  return records;
}

std::vector<OpRecord> ForwardRecords(const ModelSpec& model, const ParallelSpec& parallel,
                                     const LayerForm& form, int64_t sequence = 128) {
  std::vector<Op> ops;
  AppendLayerForward(model, parallel, form, MakeLocalShape(model, Batch(sequence), parallel), ops);
  return RecordsOf(ops);
}

std::vector<OpRecord> BackwardRecords(const ModelSpec& model, const ParallelSpec& parallel,
                                      const LayerForm& form) {
  std::vector<Op> ops;
  AppendLayerBackward(model, parallel, form, MakeLocalShape(model, Batch(), parallel), ops);
  return RecordsOf(ops);
}

double FlopsOfKind(const std::vector<OpRecord>& records, OpKind kind) {
  double flops = 0;
  for (const OpRecord& record : records) flops += record.kind == kind ? FlopsOf(record) : 0;
  return flops;
}

double Flops(const std::vector<OpRecord>& records) {
  double flops = 0;
  for (const OpRecord& record : records) flops += FlopsOf(record);
  return flops;
}

int64_t ElementsOver(const std::vector<OpRecord>& records, OpKind kind, Axis axis) {
  int64_t elements = 0;
  for (const OpRecord& record : records) {
    if (record.kind == kind && record.dims[2] == static_cast<int64_t>(axis)) {
      elements += record.dims[0];
    }
  }
  return elements;
}

int64_t Elements(const std::vector<ParameterSpec>& parameters, const ParallelSpec& parallel,
                 bool experts) {
  int64_t elements = 0;
  for (const ParameterSpec& parameter : parameters) {
    if (parameter.is_expert != experts) continue;
    const int ranks = experts ? ExpertTensorSize(parallel) : parallel.tensor_parallel_size;
    elements += SliceOf(parameter, ranks, 0).num_elements;
  }
  return elements;
}

int64_t BytesOf(const std::vector<SavedTensor>& tensors, const std::string& name) {
  for (const SavedTensor& tensor : tensors) {
    if (tensor.name == name) return tensor.num_bytes;
  }
  ADD_FAILURE() << "no " << name;
  return -1;
}

TEST(ModelFormsTest, AnExpertRankHoldsItsShareOfTheExperts) {
  const ModelSpec model = Mixture();
  const VirtualStage last{.first_layer = 3, .num_layers = 1};
  const int64_t expert = 3 * 64 * 96;
  EXPECT_EQ(Elements(StageParameters(model, MakeLayout(1), last), MakeLayout(1), true), 8 * expert);
  EXPECT_EQ(Elements(StageParameters(model, MakeLayout(1, 4), last), MakeLayout(1, 4), true),
            2 * expert);
  // Matrices split over etp = tp, or not at all with etp 1.
  EXPECT_EQ(Elements(StageParameters(model, MakeLayout(2, 4), last), MakeLayout(2, 4), true),
            expert);
  EXPECT_EQ(Elements(StageParameters(model, MakeLayout(2, 4, 1), last), MakeLayout(2, 4, 1), true),
            2 * expert);
  // Router and shared expert are not the experts': q, k, v, output, 2 norms, router, shared expert.
  EXPECT_EQ(Elements(StageParameters(model, MakeLayout(1, 4), last), MakeLayout(1, 4), false),
            64 * 128 * 2 + 64 * 64 * 2 + 2 * 64 + 8 * 64 + 3 * 64 * 32);
}

TEST(ModelFormsTest, TheRanksOfAGroupHoldEveryExpertOnce) {
  const ModelSpec model = Mixture();
  const VirtualStage last{.first_layer = 3, .num_layers = 1};
  std::vector<std::string> names;
  for (int rank = 0; rank < 4; ++rank) {
    for (const auto& parameter : StageParameters(model, MakeLayout(1, 4), last, rank)) {
      if (parameter.is_expert) names.push_back(parameter.name);
    }
  }
  std::vector<std::string> all;
  for (const auto& parameter : StageParameters(model, MakeLayout(1), last)) {
    if (parameter.is_expert) all.push_back(parameter.name);
  }
  EXPECT_EQ(names, all);
}

TEST(ModelFormsTest, LeadingLayersKeepTheirMlp) {
  const auto parameters = StageParameters(Mixture(), MakeLayout(1), {.num_layers = 2});
  EXPECT_EQ(Elements(parameters, MakeLayout(1), true), 0);
  EXPECT_EQ(Elements(parameters, MakeLayout(1), false),
            2 * (64 * 128 * 2 + 64 * 64 * 2 + 2 * 64 + 3 * 64 * 256));
}

TEST(ModelFormsTest, ExpertWorkOfAllRanksIsThatOfOne) {
  const ModelSpec model = Mixture();
  // 128 tokens, two experts each, three products of 64 x 96.
  const double whole = 2.0 * 128 * 2 * 3 * 64 * 96;
  const auto work = [&](const ParallelSpec& parallel) {
    return FlopsOfKind(ForwardRecords(model, parallel, kExperts), OpKind::kGroupedMatMul);
  };
  EXPECT_EQ(work(MakeLayout(1)), whole);
  EXPECT_EQ(work(MakeLayout(1, 4)), whole)
      << "four ranks with 128 tokens each, all experts between them";
  EXPECT_EQ(2 * work(MakeLayout(2, 4)), whole) << "two tensor ranks share the tokens";
  EXPECT_EQ(2 * work(MakeLayout(2, 4, 1)), whole);
  EXPECT_EQ(FlopsOfKind(BackwardRecords(model, MakeLayout(1, 4), kExperts), OpKind::kGroupedMatMul),
            2 * whole);
}

TEST(ModelFormsTest, MoreExpertsPerTokenAreMoreWork) {
  ModelSpec model = Mixture();
  model.moe->experts_per_token = 1;
  const double top1 = Flops(ForwardRecords(model, MakeLayout(1), kExperts));
  model.moe->experts_per_token = 2;
  EXPECT_EQ(Flops(ForwardRecords(model, MakeLayout(1), kExperts)) - top1, 2.0 * 128 * 3 * 64 * 96);
}

TEST(ModelFormsTest, ACapacityFillsEveryExpertUp) {
  ModelSpec model = Mixture();
  const auto rows = [&] { return MakeLocalShape(model, Batch(), MakeLayout(1)).routed_rows; };
  EXPECT_EQ(rows(), 256);
  model.moe->capacity_factor = 1;
  EXPECT_EQ(rows(), 256);
  model.moe->capacity_factor = 1.3;  // ceil(32 * 1.3) = 42 rows for each of 8 experts
  EXPECT_EQ(rows(), 8 * 42);
}

TEST(ModelFormsTest, RoutedRowsCrossTheExpertGroupTwiceEachWay) {
  const ModelSpec model = Mixture();
  const auto forward = ForwardRecords(model, MakeLayout(2, 4), kExperts);
  // 64 tokens of each tensor rank, two rows of 64 each; gathered over the expert-tensor pair. On
  // the way to the experts each row has its weight with it, and the pair learns how many rows go to
  // each of 8 experts from each of 4 x 2 ranks.
  constexpr int64_t kRows = 64 * 2;
  EXPECT_EQ(ElementsOver(forward, OpKind::kAllToAll, Axis::kExpert), kRows * (2 * 64 + 1));
  EXPECT_EQ(ElementsOver(forward, OpKind::kAllGather, Axis::kExpertTensor),
            2 * kRows * (64 + 1) + 8 * 4 * 2);
  EXPECT_EQ(ElementsOver(forward, OpKind::kReduceScatter, Axis::kExpertTensor), 2 * 64 * 2 * 64);
  const auto backward = BackwardRecords(model, MakeLayout(2, 4), kExperts);
  // The gradient of the weight comes back.
  EXPECT_EQ(ElementsOver(backward, OpKind::kAllToAll, Axis::kExpert), kRows * (2 * 64 + 1));
  const auto alone = ForwardRecords(model, MakeLayout(1), kExperts);
  EXPECT_TRUE(std::none_of(alone.begin(), alone.end(), [](const OpRecord& record) {
    return base::IsCommunication(record.kind);
  }));
}

// Megatron-LM #6782: routed tokens scale with the sequence-parallel ranks and not with ep.
TEST(ModelFormsTest, RoutedTokensAreSavedWhateverTheExpertParallelSize) {
  const ModelSpec model = Mixture();
  const auto saved = [&](const ParallelSpec& parallel) {
    return LayerSavedTensors(model, Batch(), parallel, kExperts,
                             MakeLocalShape(model, Batch(), parallel));
  };
  EXPECT_EQ(BytesOf(saved(MakeLayout(1)), "routed_tokens"), 128 * 2 * 64 * 2);
  EXPECT_EQ(BytesOf(saved(MakeLayout(1, 4)), "routed_tokens"), 128 * 2 * 64 * 2);
  EXPECT_EQ(BytesOf(saved(MakeLayout(2, 4, 1)), "routed_tokens"), 64 * 2 * 64 * 2);
  EXPECT_EQ(BytesOf(saved(MakeLayout(2, 4, 1)), "expert_activation"), 64 * 2 * 96 * 2);
  EXPECT_EQ(BytesOf(saved(MakeLayout(2, 4, 1)), "expert_pre_activation"), 64 * 2 * 2 * 96 * 2);
  // With etp 2 a rank takes the rows of both, half as wide.
  EXPECT_EQ(BytesOf(saved(MakeLayout(2, 4)), "expert_activation"), 128 * 2 * 48 * 2);
  EXPECT_EQ(BytesOf(saved(MakeLayout(1)), "router_probabilities"), 128 * 8 * 4);
  EXPECT_EQ(BytesOf(saved(MakeLayout(1)), "shared_expert_activation"), 128 * 32 * 2);
}

TEST(ModelFormsTest, LatentAttentionHasItsOwnMatrices) {
  const ModelSpec model = Latent();
  const auto parameters = StageParameters(model, MakeLayout(1), {.num_layers = 1});
  // Queries down and up, keys and values down (with 8 rotary columns) and up, output; norms of the
  // hidden state and of both latent vectors.
  EXPECT_EQ(Elements(parameters, MakeLayout(1), false), 40 * 64 + 8 * 24 * 40 + (20 + 8) * 64 +
                                                            8 * (16 + 12) * 20 + 64 * 8 * 12 + 64 +
                                                            40 + 20 + 3 * 64 * 256 + 64);
}

TEST(ModelFormsTest, LatentAttentionWorksOnWideKeysAndNarrowValues) {
  const ModelSpec model = Latent();
  const auto forward = ForwardRecords(model, MakeLayout(1), {});
  // Half of 128 x 128 pairs for each of 8 heads: 24 deep for scores, 12 for values.
  EXPECT_EQ(FlopsOfKind(forward, OpKind::kAttentionForward), 2.0 * 8 * (128 * 128 / 2) * (24 + 12));
  EXPECT_EQ(FlopsOfKind(forward, OpKind::kMatMul),
            2.0 * 128 *
                (40 * 64 + 8 * 24 * 40 + (20 + 8) * 64 + 8 * (16 + 12) * 20 + 64 * 8 * 12 +
                 3 * 64 * 256));
  // Backward: twice the products; of attention dQ, dK, scores again (24 deep) and dV, dP (12).
  const auto backward = BackwardRecords(model, MakeLayout(1), {});
  EXPECT_EQ(FlopsOfKind(backward, OpKind::kMatMul), 2 * FlopsOfKind(forward, OpKind::kMatMul));
  EXPECT_EQ(FlopsOfKind(backward, OpKind::kAttentionBackward),
            2.0 * 8 * (128 * 128 / 2) * (3 * 24 + 2 * 12));
}

TEST(ModelFormsTest, LatentVectorsTravelInsteadOfTheHiddenState) {
  // Gathered over tp: latent queries (40), latent keys and values with the rotary keys (28), and
  // the hidden state before the MLP alone.
  const auto forward = ForwardRecords(Latent(), MakeLayout(2), {});
  EXPECT_EQ(ElementsOver(forward, OpKind::kAllGather, Axis::kTensor), 128 * (40 + 28 + 64));
}

TEST(ModelFormsTest, LatentAttentionKeepsLatentAndWideTensors) {
  const ModelSpec model = Latent();
  const auto saved = LayerSavedTensors(model, Batch(), MakeLayout(1), {},
                                       MakeLocalShape(model, Batch(), MakeLayout(1)));
  EXPECT_EQ(BytesOf(saved, "query_latent"), 128 * 40 * 2);
  EXPECT_EQ(BytesOf(saved, "key_value_latent"), 128 * 28 * 2);
  EXPECT_EQ(BytesOf(saved, "qkv"), 128 * 8 * (24 + 24 + 12) * 2);
  EXPECT_EQ(BytesOf(saved, "attention_output"), 128 * 8 * 12 * 2);
}

TEST(ModelFormsTest, AWindowCostsItsKeysAlone) {
  ModelSpec model = Mixture();
  model.moe.reset();
  model.sliding_window = SlidingWindowSpec{.size = 32};
  const auto attention = [&](bool is_windowed) {
    return FlopsOfKind(ForwardRecords(model, MakeLayout(1), {.is_windowed = is_windowed}, 1024),
                       OpKind::kAttentionForward);
  };
  EXPECT_EQ(attention(false), 2.0 * 8 * 2 * 16 * (1024 * 1024 / 2));
  // 32 keys to each token, less the triangle that the first tokens lack.
  EXPECT_EQ(attention(true), 2.0 * 8 * 2 * 16 * (1024 * 32 - 32 * 32 / 2));
}

TEST(ModelFormsTest, ARingBlockOffTheDiagonalIsWhole) {
  OpRecord block{
      .kind = OpKind::kAttentionForward,
      .dims = {1, 64, 4, 4, 16, 0, 32, 0, 0, static_cast<int64_t>(base::AttentionMask::kFull)}};
  EXPECT_EQ(FlopsOf(block), 2.0 * 4 * 2 * 16 * (64 * 32));
  // 32 queries at the end of 64 keys: whole with the first 32, half with the last.
  block.dims[1] = 32;
  block.dims[6] = 64;
  block.dims[9] = static_cast<int64_t>(base::AttentionMask::kCausal);
  EXPECT_EQ(FlopsOf(block), 2.0 * 4 * 2 * 16 * (32 * 32 + 32 * 32 / 2));
}

// The terms of Megatron-LM's training report (num_floating_point_operations), written out.
TEST(ModelFormsTest, ModelFlopsFollowMegatronsFormula) {
  const ModelSpec model = Mixture();
  const double tokens = 8 * 128;
  const double attention = 64.0 * (128 + 2 * 64) + 128 * 64 + 2 * 128 * 128 / 2.0;
  const double dense = 3.0 * 64 * 256;
  const double experts = 3.0 * 64 * (2 * 96 + 32);
  EXPECT_DOUBLE_EQ(ModelFlopsPerStep(model, Batch(), FlopsConvention::kCausal),
                   6 * tokens * (4 * attention + 2 * dense + 2 * experts + 64 * 1000.0));
  EXPECT_DOUBLE_EQ(
      ModelFlopsPerStep(model, Batch(), FlopsConvention::kFull),
      6 * tokens * (4 * (attention + 128 * 128) + 2 * dense + 2 * experts + 64 * 1000.0));
}

TEST(ModelFormsTest, ModelFlopsOfLatentAttentionAndMultiTokenLayersFollowMegatronsFormula) {
  ModelSpec model = Latent();
  const double tokens = 8 * 128;
  const double attention = 40.0 * (64 + 8 * 24 + 1) + 20.0 * (64 + 8 * (16 + 12) + 1) + 64 * 8 +
                           8 * 12 * 64 + 128 * 8 * 24 / 2.0 + 128 * 8 * 12 / 2.0;
  const double layer = attention + 3.0 * 64 * 256;
  EXPECT_DOUBLE_EQ(ModelFlopsPerStep(model, Batch(), FlopsConvention::kCausal),
                   6 * tokens * (4 * layer + 64 * 1000.0));
  model.num_multi_token_layers = 1;
  EXPECT_DOUBLE_EQ(ModelFlopsPerStep(model, Batch(), FlopsConvention::kCausal),
                   6 * tokens * (5 * layer + 3 * 64 + 2 * 64 * 64 + 2 * 64 * 1000.0));
}

TEST(ModelFormsTest, AMultiTokenLayerIsALayerAProjectionAndAHead) {
  ModelSpec model = Mixture();
  const LocalShape shape = MakeLocalShape(model, Batch(), MakeLayout(1));
  const auto head_flops = [&](auto append) {
    std::vector<Op> ops;
    append(model, MakeLayout(1), shape, ops);
    return Flops(RecordsOf(ops));
  };
  const double head = head_flops(AppendHeadForward);
  const double head_backward = head_flops(AppendHeadBackward);
  const double layer = Flops(ForwardRecords(model, MakeLayout(1), kExperts));
  const double layer_backward = Flops(BackwardRecords(model, MakeLayout(1), kExperts));
  const int64_t parameters = NumParameters(model);
  model.num_multi_token_layers = 1;
  const double projection = 2.0 * 128 * 2 * 64 * 64;
  EXPECT_EQ(head_flops(AppendHeadForward), 2 * head + layer + projection);
  EXPECT_EQ(head_flops(AppendHeadBackward), 2 * head_backward + layer_backward + 2 * projection);
  // A layer of experts, the projection and three norms; embedding and head are shared.
  const int64_t layer_parameters =
      Elements(StageParameters(model, MakeLayout(1), {.first_layer = 3, .num_layers = 1}),
               MakeLayout(1), false) +
      8 * 3 * 64 * 96;
  EXPECT_EQ(NumParameters(model) - parameters, layer_parameters + 2 * 64 * 64 + 3 * 64);
}

TEST(ModelFormsTest, TheLastStageHoldsTheEmbeddingOfMultiTokenLayers) {
  ModelSpec model = Mixture();
  model.num_multi_token_layers = 1;
  const auto parameters =
      StageParameters(model, MakeLayout(1), {.first_layer = 2, .num_layers = 2, .has_head = true});
  const auto copies = std::count_if(parameters.begin(), parameters.end(),
                                    [](const auto& parameter) { return parameter.tied_copy; });
  EXPECT_EQ(copies, 1);
}

TEST(ModelFormsTest, NormsOfQueriesAndKeysAreCounted) {
  ModelSpec model = Mixture();
  const int64_t parameters = NumParameters(model);
  model.qk_norm = true;
  EXPECT_EQ(NumParameters(model) - parameters, 4 * 2 * 16);
}

}  // namespace
}  // namespace tessera::spec
