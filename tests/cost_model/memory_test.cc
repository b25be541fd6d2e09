#include "cost_model/memory.h"

#include <gtest/gtest.h>

#include "cost_model/spec/kept_tensors.h"
#include "cost_model/step_cost.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

std::vector<spec::StageMemory> Memory(const Job& job, const spec::ParallelSpec& parallel) {
  return MemoryOf(job.model, job.cluster, job.training, parallel,
                  spec::PartitionStages(job.model, parallel));
}

// Korthikanti et al. 2022, arXiv:2205.05198, section 4, 16-bit activations, counted again for a
// layer without dropout: its input, two outputs of norms and the input of the second, 2 sbh each;
// 24 sbh / t for qkv, the attention's output and the two MLP activations; 2 a s^2 b / t for the
// probabilities. The paper's masks and dropped-out copies (2 sbh and 3 a s^2 b / t) are not there.
// Norms keep two fp32 numbers a token each.
double LayerBytes(const Job& job, const spec::ParallelSpec& parallel) {
  const auto s = static_cast<double>(job.training.sequence_length);
  const auto b = static_cast<double>(parallel.micro_batch_size);
  const auto h = static_cast<double>(job.model.hidden_size);
  const double a = job.model.num_attention_heads;
  const double t = parallel.tensor_parallel_size;
  const double on_all = parallel.sequence_parallel ? t : 1;
  const double statistics = 16 * s * b / on_all;
  return s * b * h * (8 / on_all + 24 / t + 2 * a * s / (h * t)) + statistics;
}

TEST(MemoryTest, AStageHoldsItsLayersForEachMicrobatchInFlight) {
  const Job job = RoundJob(8);
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = 2;
  parallel.pipeline_parallel_size = 4;
  parallel.attention = spec::AttentionKind::kUnfused;
  for (const bool sequence_parallel : {false, true}) {
    parallel.sequence_parallel = sequence_parallel;
    const std::vector<spec::StageMemory> memory = Memory(job, parallel);
    // Middle stages: neither embedding nor head. 1F1B: p - r micro-batches on stage r.
    EXPECT_DOUBLE_EQ(static_cast<double>(memory[1].activations_bytes),
                     3 * 2 * LayerBytes(job, parallel));
    EXPECT_DOUBLE_EQ(static_cast<double>(memory[2].activations_bytes),
                     2 * 2 * LayerBytes(job, parallel));
  }
}

TEST(MemoryTest, FullRecomputationKeepsInputsAndOneLayer) {
  const Job job = RoundJob(8);
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = 2;
  parallel.pipeline_parallel_size = 4;
  parallel.attention = spec::AttentionKind::kUnfused;
  const double layer = LayerBytes(job, parallel);
  parallel.recompute = spec::Recompute::kFull;
  const double input = 2.0 * 1024 * 1024;  // 2 sbh
  EXPECT_DOUBLE_EQ(static_cast<double>(Memory(job, parallel)[1].activations_bytes),
                   3 * 2 * input + layer - input);
}

// Same paper, section 4.2.3: interleaving multiplies the first stage's activations by
// 1 + (p - 1) / (p v).
TEST(MemoryTest, InterleavingHoldsThePublishedShareMore) {
  for (const int v : {2, 4, 8}) {
    for (const int p : {2, 4, 8}) {
      spec::ParallelSpec parallel;
      parallel.pipeline_parallel_size = p;
      const int64_t plain = MaxPassesInFlight(parallel, 64, 0);
      parallel.virtual_pipeline_size = v;
      parallel.schedule = spec::ScheduleKind::kInterleaved;
      const double chunks = static_cast<double>(MaxPassesInFlight(parallel, 64, 0)) / v;
      EXPECT_DOUBLE_EQ(chunks / static_cast<double>(plain),
                       1 + static_cast<double>(p - 1) / (p * v));
    }
  }
}

TEST(MemoryTest, PassesInFlightAreThoseOfTheSchedule) {
  for (const int p : {1, 2, 3, 4}) {
    for (const int v : {1, 2, 3}) {
      if (p == 1 && v > 1) continue;
      for (const int rounds : {1, 2, 5}) {
        spec::ParallelSpec parallel;
        parallel.pipeline_parallel_size = p;
        parallel.virtual_pipeline_size = v;
        if (v > 1) parallel.schedule = spec::ScheduleKind::kInterleaved;
        const int m = p * rounds;
        const spec::PipelineSchedule schedule = spec::MakeSchedule(parallel, m);
        for (int stage = 0; stage < p; ++stage) {
          int64_t held = 0, most = 0;
          for (const spec::Action& action : schedule.actions_by_stage[stage]) {
            if (action.kind == spec::ActionKind::kForward) most = std::max(most, ++held);
            if (action.kind == spec::ActionKind::kBackward) --held;
          }
          EXPECT_EQ(MaxPassesInFlight(parallel, m, stage), most)
              << "p " << p << " v " << v << " m " << m << " stage " << stage;
        }
      }
    }
  }
}

// The slower way: every action of the schedule.
TEST(MemoryTest, ALongScheduleHoldsWhatItsActionsHold) {
  Job job = RoundJob(4);
  job.training.global_batch_size = 96;
  for (const auto& [kind, v] :
       {std::pair(spec::ScheduleKind::kOneForwardOneBackward, 1),
        std::pair(spec::ScheduleKind::kInterleaved, 2), std::pair(spec::ScheduleKind::kGPipe, 1),
        std::pair(spec::ScheduleKind::kZeroBubbleH1, 1)}) {
    spec::ParallelSpec parallel;
    parallel.pipeline_parallel_size = 4;
    parallel.virtual_pipeline_size = v;
    parallel.schedule = kind;
    parallel.recompute = spec::Recompute::kFull;
    const spec::PipelineSchedule schedule = spec::MakeSchedule(parallel, 96);
    const std::vector<spec::StageMemory> memory = Memory(job, parallel);
    const auto stages = spec::PartitionStages(job.model, parallel);
    for (int stage = 0; stage < 4; ++stage) {
      std::vector<spec::StageActivationBytes> by_chunk;
      for (const spec::VirtualStage& chunk : spec::StagesOf(stages, stage)) {
        by_chunk.push_back(spec::KeptBytesOf(job.model, job.training, parallel, chunk, {}));
      }
      EXPECT_EQ(memory[stage].activations_bytes,
                spec::PeakActivationBytes(schedule.actions_by_stage[stage], 4, by_chunk))
          << ToString(kind) << " stage " << stage;
    }
  }
}

// Qi et al. 2023, arXiv:2401.10241, Table 1: what waits for the weight gradients takes 32 sbh.
TEST(MemoryTest, WeightPassesWaitWithThePublishedBytes) {
  const Job job = RoundJob(4);
  spec::ParallelSpec parallel;
  parallel.schedule = spec::ScheduleKind::kZeroBubbleH1;
  const spec::LocalShape shape = spec::MakeLocalShape(job.model, job.training, parallel);
  EXPECT_EQ(spec::LayerWeightOperandBytes(job.model, job.training, parallel, {}, shape),
            32 * 1024 * 1024);
}

// The third of four stages keeps two micro-batches and the operands of two that wait.
TEST(MemoryTest, AStageHoldsTheOperandsOfWeightPassesPutOff) {
  const Job job = RoundJob(4);
  spec::ParallelSpec parallel;
  parallel.pipeline_parallel_size = 4;
  parallel.schedule = spec::ScheduleKind::kZeroBubbleH1;
  const spec::StageMemory memory = Memory(job, parallel)[2];  // two layers, neither end
  const int64_t saved = spec::KeptBytesOf(job.model, job.training, parallel,
                                          spec::PartitionStages(job.model, parallel)[2], {})
                            .saved_bytes;
  EXPECT_EQ(memory.activations_bytes, 2 * saved + 2 * (2 * 32 * 1024 * 1024));
}

// Megatron-LM's distributed optimizer: 6 + 12 / d bytes a parameter in 16-bit training.
TEST(MemoryTest, StateTakesThePublishedBytesAParameter) {
  const Job job = RoundJob(8);
  spec::ParallelSpec parallel;
  parallel.data_parallel_size = 8;
  const spec::StageMemory memory = Memory(job, parallel)[0];
  const double weights = static_cast<double>(memory.weights_bytes) / 2;
  EXPECT_DOUBLE_EQ(static_cast<double>(memory.gradients_bytes), 4 * weights);
  EXPECT_DOUBLE_EQ(static_cast<double>(memory.optimizer_bytes), 12 * weights / 8);
}

TEST(MemoryTest, ADeviceOfItsOwnKeepsRoomForItsAllocator) {
  Job job = RoundJob(1);
  const std::vector<spec::StageMemory> memory = Memory(job, {});
  job.cluster.device.memory_bytes = PeakBytes(memory) * 105 / 100;
  EXPECT_FALSE(FindMemoryViolation(memory, job.cluster, {}).has_value());
  job.cluster.device.memory_bytes = PeakBytes(memory) * 103 / 100;
  EXPECT_TRUE(FindMemoryViolation(memory, job.cluster, {}).has_value());
}

TEST(MemoryTest, APoolAddsUpItsRanks) {
  Job job = RoundJob(4);
  job.cluster.shared_compute_units = 2;
  spec::ParallelSpec parallel;
  parallel.data_parallel_size = 2;
  parallel.pipeline_parallel_size = 2;
  const std::vector<spec::StageMemory> memory = Memory(job, parallel);
  const int64_t sum = 2 * (memory[0].Total() + memory[1].Total());
  job.cluster.device.memory_bytes = sum;
  EXPECT_FALSE(FindMemoryViolation(memory, job.cluster, parallel).has_value());
  job.cluster.device.memory_bytes = sum - 1;
  const auto violation = FindMemoryViolation(memory, job.cluster, parallel);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->constraint, "device memory");
  EXPECT_DOUBLE_EQ(violation->needed, static_cast<double>(sum));
}

}  // namespace
}  // namespace tessera::cost_model
