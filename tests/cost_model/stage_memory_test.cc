#include "cost_model/stage_memory.h"

#include <gtest/gtest.h>

#include "cost_model/memory.h"
#include "cost_model/spec/spec_json.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

// Tessera's bytes of `elements` parameters in bf16, ZeRO 0.
spec::StateBytes Unsharded(int64_t elements, base::DType reduce_type) {
  spec::ParallelSpec parallel;
  parallel.zero_stage = 0;
  parallel.gradient_reduce_type = reduce_type;
  return spec::StateBytesOf({.elements = elements}, RoundJob(1).training, parallel);
}

int64_t BytesOfAParameter(const std::string& runtime, base::DType reduce_type, int zero_stage = 1) {
  spec::ParallelSpec parallel;
  parallel.gradient_reduce_type = reduce_type;
  parallel.zero_stage = zero_stage;
  const spec::StateBytes state = StateBytesIn(Unsharded(1600, reduce_type), RoundJob(1).training,
                                              parallel, spec::LoadRuntime(runtime));
  return (state.weights_bytes + state.gradients_bytes + state.optimizer_bytes) / 1600;
}

// Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1: 2 + 2 + 12; DeepSpeed copies the
// gradients to fp32 for the update, without ZeRO twice. Megatron-LM: 2 + 4 + 12. FSDP: 4 + 4 + 8.
// DeepSpeed with fp32 reduction (its bf16 optimizer) keeps 16-bit gradients beside.
TEST(StageMemoryTest, AParameterTakesThePublishedBytes) {
  EXPECT_EQ(BytesOfAParameter("megatron-core", base::DType::kFloat32), 18);
  EXPECT_EQ(BytesOfAParameter("torchtitan", base::DType::kFloat32), 16);
  EXPECT_EQ(BytesOfAParameter("megatron-deepspeed", base::DType::kBFloat16), 16 + 4);
  EXPECT_EQ(BytesOfAParameter("megatron-deepspeed", base::DType::kBFloat16, 0), 16 + 8);
  EXPECT_EQ(BytesOfAParameter("megatron-deepspeed", base::DType::kFloat32), 2 + 4 + 2 + 12);
}

// One matrix for q, k and v together, attention's output, two of the MLP: 3 + 1 + 4 + 4 h^2.
TEST(StageMemoryTest, PlaceholdersAreOneForEachShape) {
  const Job job = RoundJob(1);
  const int64_t h2 = 1024 * 1024;
  for (const int num_layers : {1, 3}) {
    EXPECT_EQ(PlaceholderBytes(job.model, job.training, {}, {.num_layers = num_layers}),
              2 * 12 * h2);
  }
}

TEST(StageMemoryTest, AGroupOfRanksIsACommunicator) {
  spec::ParallelSpec parallel;
  EXPECT_EQ(NumCommunicators(parallel), 0);
  parallel.data_parallel_size = 2;
  EXPECT_EQ(NumCommunicators(parallel), 2);  // the world, the data ranks
  // The tensor ranks, and those of one model, for the norm of its gradients.
  parallel.tensor_parallel_size = 8;
  EXPECT_EQ(NumCommunicators(parallel), 4);
  parallel.pipeline_parallel_size = 2;
  EXPECT_EQ(NumCommunicators(parallel), 5);
}

// 1024 positions of 1024: 7 of 8 parts of them are on other ranks, of weights (2 bytes), gradients
// (4) and optimizer state (12) alike.
TEST(StageMemoryTest, PositionsMayBeSplitOverTensorRanks) {
  const Job job = RoundJob(8);
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = 8;
  parallel.zero_stage = 0;
  const int64_t elements = 100 * 1024 * 1024;
  const spec::StateBytes whole = Unsharded(elements, base::DType::kFloat32);
  spec::RuntimeSpec runtime;
  runtime.shards_position_embedding = true;
  const auto split = [&] {
    return SplitPositions(whole, job.model, job.training, parallel, runtime);
  };
  EXPECT_EQ(split().weights_bytes, whole.weights_bytes);
  parallel.sequence_parallel = true;
  const int64_t away = int64_t{job.model.max_sequence_length} * 1024 * 7 / 8;
  EXPECT_NEAR(whole.weights_bytes - split().weights_bytes, 2 * away, 1);
  EXPECT_NEAR(whole.gradients_bytes - split().gradients_bytes, 4 * away, 1);
  EXPECT_NEAR(whole.optimizer_bytes - split().optimizer_bytes, 12 * away, 1);
}

// Zheng et al. 2022, arXiv:2201.12023, section 4.2: replicated updates are shared out.
TEST(StageMemoryTest, ARuntimeMaySplitUpdatesThatTheLayoutLeavesWhole) {
  spec::ParallelSpec parallel;
  parallel.zero_stage = 0;
  parallel.data_parallel_size = 4;
  spec::RuntimeSpec runtime;
  runtime.splits_updates = true;
  const spec::StateBytes whole = Unsharded(1600, base::DType::kFloat32);
  EXPECT_EQ(StateBytesIn(whole, RoundJob(4).training, parallel, runtime).optimizer_bytes,
            12 * 1600 / 4);
}

TEST(StageMemoryTest, TheUpdateNeedsWhatItsTemporariesExceedTheActivationsBy) {
  const Job job = RoundJob(1);
  spec::RuntimeSpec runtime;
  runtime.update_bytes_per_parameter = 16;
  StageParts parts{.state = Unsharded(1000, base::DType::kFloat32), .activations_bytes = 10'000};
  EXPECT_EQ(BuffersOf(job.cluster, job.training, {}, runtime, parts).update_bytes, 6'000);
  // A copy of the gradients in their type and one in fp32, unless they are one tensor anyway.
  runtime.flattens_gradients = true;
  EXPECT_EQ(BuffersOf(job.cluster, job.training, {}, runtime, parts).update_bytes, 12'000);
  spec::ParallelSpec sharded;
  sharded.zero_stage = 3;
  EXPECT_EQ(BuffersOf(job.cluster, job.training, sharded, runtime, parts).update_bytes, 6'000);
  runtime.flattens_gradients = false;
  parts.activations_bytes = 20'000;
  EXPECT_EQ(BuffersOf(job.cluster, job.training, {}, runtime, parts).update_bytes, 0);
}

// A tenth of what is allocated, as far as the device goes.
TEST(StageMemoryTest, TheAllocatorReservesNoMoreThanIsLeft) {
  Job job = RoundJob(1);
  spec::RuntimeSpec runtime;
  runtime.allocator_reserve = 0.1;
  runtime.autograd = true;  // no workspace of Tessera's
  const StageParts parts{.activations_bytes = 1000};
  EXPECT_EQ(AssembleStage(job.cluster, job.training, {}, runtime, parts).reserve_bytes, 100);
  job.cluster.device.memory_bytes = 1040;
  EXPECT_EQ(AssembleStage(job.cluster, job.training, {}, runtime, parts).reserve_bytes, 40);
}

}  // namespace
}  // namespace tessera::cost_model
