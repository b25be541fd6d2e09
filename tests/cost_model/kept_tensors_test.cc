#include "cost_model/spec/kept_tensors.h"

#include <gtest/gtest.h>

#include "cost_model/spec/spec_json.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::spec {
namespace {

using cost_model::Job;
using cost_model::RoundJob;

int64_t LayerKeptBytes(const Job& job, const ParallelSpec& parallel, const RuntimeSpec& runtime) {
  const LocalShape shape = MakeLocalShape(job.model, job.training, parallel);
  return SumBytes(LayerTensorsOf(job.model, job.training, parallel, {}, shape, runtime).kept);
}

TEST(KeptTensorsTest, ARuntimeOfTesserasBehavioursHoldsTheLayersTensors) {
  const Job job = RoundJob(8);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    for (const AttentionKind attention : {AttentionKind::kUnfused, AttentionKind::kFlash}) {
      ParallelSpec parallel;
      parallel.tensor_parallel_size = 2;
      parallel.sequence_parallel = true;
      parallel.recompute = recompute;
      parallel.attention = attention;
      const LocalShape shape = MakeLocalShape(job.model, job.training, parallel);
      const LayerTensors tensors = LayerTensorsOf(job.model, job.training, parallel, {}, shape, {});
      EXPECT_EQ(SumBytes(tensors.kept),
                SumBytes(LayerSavedTensors(job.model, job.training, parallel, {}, shape)));
      EXPECT_EQ(SumBytes(tensors.restored),
                SumBytes(LayerRecomputedTensors(job.model, job.training, parallel, {}, shape)));
    }
  }
}

// Korthikanti et al. 2022, arXiv:2205.05198, equations 1 to 5 and table 2, in units of sbh. The
// statistics of the norms (two fp32 numbers a token each), which the paper leaves out, come on top.
TEST(KeptTensorsTest, MegatronOf2021KeepsThePublishedBytesOfALayer) {
  const Job job = RoundJob(8);
  RuntimeSpec runtime = LoadRuntime("megatron-lm-2021");
  runtime.fused_softmax_heads_multiple = 1;  // the paper has a fused softmax throughout
  const double sb = 1024;
  const double h = 1024;
  const double scores = 5.0 * 16 * 1024 / h;  // 5 a s / h
  const auto units = [&](const ParallelSpec& parallel, double statistics) {
    return (static_cast<double>(LayerKeptBytes(job, parallel, runtime)) - statistics) / (sb * h);
  };
  ParallelSpec parallel;
  parallel.attention = AttentionKind::kUnfused;
  EXPECT_DOUBLE_EQ(units(parallel, 16 * sb), 34 + scores);
  for (const int t : {2, 4, 8}) {
    parallel.tensor_parallel_size = t;
    parallel.sequence_parallel = false;
    parallel.recompute = Recompute::kNone;
    EXPECT_DOUBLE_EQ(units(parallel, 16 * sb), 10 + 24.0 / t + scores / t);
    parallel.sequence_parallel = true;
    EXPECT_DOUBLE_EQ(units(parallel, 16 * sb / t), (34 + scores) / t);
    parallel.recompute = Recompute::kSelective;
    EXPECT_DOUBLE_EQ(units(parallel, 16 * sb / t), 34.0 / t);
    parallel.recompute = Recompute::kFull;
    parallel.sequence_parallel = false;
    EXPECT_DOUBLE_EQ(units(parallel, 0), 2);
  }
}

// 1,024 tokens of 32,768 logits: 4 bytes each for an fp32 gradient or copy, 2 over the logits.
TEST(KeptTensorsTest, LogitsTakeTheBytesOfTheirGradient) {
  const Job job = RoundJob(1);
  const LocalShape shape = MakeLocalShape(job.model, job.training, {});
  const auto logits_bytes = [&](const RuntimeSpec& runtime) {
    return HeadKeptTensors(job.model, job.training, {}, shape, runtime).back().num_bytes;
  };
  RuntimeSpec runtime;
  EXPECT_EQ(logits_bytes(runtime), int64_t{2} * 1024 * 32768);
  runtime.fp32_logits_gradient = true;
  EXPECT_EQ(logits_bytes(runtime), int64_t{4} * 1024 * 32768);
  runtime.fp32_logits_gradient = false;
  runtime.fused_cross_entropy = false;
  EXPECT_EQ(logits_bytes(runtime), int64_t{4} * 1024 * 32768);
}

// Logits in 16 bits and two fp32 copies: 10 bytes a logit on top of the head's other tensors.
TEST(KeptTensorsTest, AnUnfusedLossHoldsItsCopiesOfTheLogits) {
  const Job job = RoundJob(1);
  const LocalShape shape = MakeLocalShape(job.model, job.training, {});
  RuntimeSpec runtime;
  runtime.autograd = true;
  runtime.fused_cross_entropy = false;
  runtime.fp32_logits_copies = 2;
  const int64_t labels = int64_t{4} * 1024;
  const int64_t norm = int64_t{2} * 2 * 1024 * 1024 + 8 * 1024;  // input and output, statistics
  EXPECT_EQ(HeadPeakBytes(job.model, job.training, {}, shape, runtime),
            labels + norm + int64_t{10} * 1024 * 32768);
}

// torchtitan with a vocabulary split over 2 ranks: 4 copies, 18 bytes a logit; whole, 3: 14.
TEST(KeptTensorsTest, ALossOverTensorRanksHasItsOwnCopies) {
  const Job job = RoundJob(2);
  RuntimeSpec runtime;
  runtime.autograd = true;
  runtime.fused_cross_entropy = false;
  runtime.fp32_logits_copies = 3;
  runtime.sharded_fp32_logits_copies = 4;
  runtime.fp32_logits_gradient = true;
  const auto loss_bytes = [&](int tensor_parallel_size) {
    ParallelSpec parallel;
    parallel.tensor_parallel_size = tensor_parallel_size;
    const LocalShape shape = MakeLocalShape(job.model, job.training, parallel);
    const int64_t all = HeadPeakBytes(job.model, job.training, parallel, shape, runtime);
    runtime.fused_cross_entropy = true;  // 4 bytes a logit beside the same inputs
    const int64_t fused = HeadPeakBytes(job.model, job.training, parallel, shape, runtime);
    runtime.fused_cross_entropy = false;
    return all - fused;
  };
  EXPECT_EQ(loss_bytes(1), int64_t{14 - 4} * 1024 * 32768);
  EXPECT_EQ(loss_bytes(2), int64_t{18 - 4} * 1024 * 16384);
}

// 16 heads of 1024 x 1024 scores: 2 bytes of probabilities where one kernel made them, else the 4
// of the fp32 softmax as well. Selective recomputation spares both.
TEST(KeptTensorsTest, ASoftmaxInPiecesKeepsScoresInBothTypes) {
  const Job job = RoundJob(1);
  ParallelSpec parallel;
  parallel.attention = AttentionKind::kUnfused;
  RuntimeSpec fused, apart;
  apart.fused_softmax = false;
  const int64_t scores = int64_t{16} * 1024 * 1024;
  EXPECT_EQ(LayerKeptBytes(job, parallel, apart) - LayerKeptBytes(job, parallel, fused),
            4 * scores);
  RuntimeSpec few_heads;
  few_heads.fused_softmax_heads_multiple = 5;
  EXPECT_EQ(LayerKeptBytes(job, parallel, few_heads), LayerKeptBytes(job, parallel, apart));
  parallel.recompute = Recompute::kSelective;
  EXPECT_EQ(LayerKeptBytes(job, parallel, apart), LayerKeptBytes(job, parallel, fused));
}

// Llama 3 8B's layer has products of 1, 1/4, 1/4 (queries, keys, values), 1, 3.5, 3.5 and 1 times
// the hidden size. Kept: the input, queries, values, the gate's product, attention's output and its
// log-sum-exp: 1 + 1 + 1/4 + 3.5 + 1 and 4 bytes a head and token.
TEST(KeptTensorsTest, EveryOtherProductIsKeptWhereTheBackwardPassReadsIt) {
  Job job = RoundJob(1);
  job.model = LoadModel("llama3-8b");
  job.training.sequence_length = 8192;
  ParallelSpec parallel;
  parallel.recompute = Recompute::kSelective;
  RuntimeSpec runtime;
  runtime.keeps_alternate_products = true;
  const int64_t unit = int64_t{2} * 8192 * 4096;
  EXPECT_EQ(LayerKeptBytes(job, parallel, runtime), unit * 27 / 4 + int64_t{4} * 32 * 8192);
  // Split over 8 ranks with their sequence the scattered sum after attention stays as well.
  parallel.tensor_parallel_size = 8;
  parallel.sequence_parallel = true;
  EXPECT_EQ(LayerKeptBytes(job, parallel, runtime), (unit * 31 / 4 + int64_t{4} * 32 * 8192) / 8);
  // What comes back is all else that the layer holds without recomputation.
  const LocalShape shape = MakeLocalShape(job.model, job.training, parallel);
  const LayerTensors layer = LayerTensorsOf(job.model, job.training, parallel, {}, shape, runtime);
  parallel.recompute = Recompute::kNone;
  EXPECT_EQ(SumBytes(layer.kept) + SumBytes(layer.restored),
            LayerKeptBytes(job, parallel, runtime));
}

TEST(KeptTensorsTest, DropoutKeepsAByteAnElement) {
  const Job job = RoundJob(1);
  RuntimeSpec runtime;
  const int64_t without = LayerKeptBytes(job, {}, runtime);
  runtime.hidden_dropout = true;
  EXPECT_EQ(LayerKeptBytes(job, {}, runtime) - without, 2 * 1024 * 1024);
}

TEST(KeptTensorsTest, GatheredInputsAreNotShared) {
  const Job job = RoundJob(4);
  ParallelSpec parallel;
  parallel.tensor_parallel_size = 4;
  parallel.sequence_parallel = true;
  RuntimeSpec runtime;
  const int64_t shared = LayerKeptBytes(job, parallel, runtime);
  runtime.keeps_gathered_inputs = true;
  // Two outputs of norms of 2 sbh, a quarter of which each rank held before.
  EXPECT_EQ(LayerKeptBytes(job, parallel, runtime) - shared, 2 * 2 * 1024 * 1024 * 3 / 4);
}

// SwiGLU's backward pass: its input's gradient, twice the MLP's width, where its output was, beside
// the gradient of the layer's output.
TEST(KeptTensorsTest, TheWorkingSetOfALayerIsThatOfItsActivation) {
  Job job = RoundJob(1);
  job.model.activation = ActivationKind::kSwiGlu;
  const LocalShape shape = MakeLocalShape(job.model, job.training, {});
  RuntimeSpec runtime;
  EXPECT_EQ(LayerWorkingBytes(job.model, job.training, {}, {}, shape, runtime), 0);
  runtime.autograd = true;
  EXPECT_EQ(LayerWorkingBytes(job.model, job.training, {}, {}, shape, runtime),
            2 * 1024 * (1024 + 2 * 4096));
}

// Two experts of width 64 for each token: 1024 x 2 rows of 1024 + 2 x 64 kept. The scores'
// gradients, before and after the softmax, outweigh the tokens under way.
TEST(KeptTensorsTest, TheSoftmaxIsAWorkingSetOfALayerOfExpertsToo) {
  Job job = RoundJob(1);
  job.model.moe = MoeSpec{.num_experts = 4, .experts_per_token = 2, .expert_ffn_hidden_size = 64};
  ParallelSpec parallel;
  parallel.attention = AttentionKind::kUnfused;
  const LocalShape shape = MakeLocalShape(job.model, job.training, parallel);
  RuntimeSpec runtime;
  runtime.autograd = true;
  const int64_t scores = int64_t{16} * 1024 * 1024;
  const int64_t gradient = 1024 * 1024;
  EXPECT_EQ(
      LayerWorkingBytes(job.model, job.training, parallel, {.has_experts = true}, shape, runtime),
      2 * (gradient + 2 * scores - 2048 * (1024 + 2 * 64)));
}

TEST(KeptTensorsTest, LongerSequencesAndLargerMicrobatchesHoldMore) {
  for (const char* name : {"tessera", "megatron-core", "megatron-lm-2021", "megatron-deepspeed",
                           "deepspeed-zero3", "torchtitan", "internevo", "nanotron"}) {
    const RuntimeSpec runtime = LoadRuntime(name);
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      int64_t last_bytes = 0;
      for (const int64_t scale : {1, 2, 3}) {
        Job job = RoundJob(1);
        job.training.sequence_length = 512 * scale;
        ParallelSpec parallel;
        parallel.micro_batch_size = scale;
        parallel.recompute = recompute;
        const int64_t bytes = KeptBytesOf(job.model, job.training, parallel,
                                          PartitionStages(job.model, parallel)[0], runtime)
                                  .working_bytes;
        EXPECT_GT(bytes, last_bytes) << name;
        last_bytes = bytes;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::spec
