// The memory that searches price, against lists of all parameters and schedules played action by
// action.
#include "cost_model/step_memory.h"

#include <gtest/gtest.h>

#include <random>

#include "cost_model/memory.h"
#include "cost_model/spec/activation_peak.h"
#include "cost_model/spec/pipeline_schedule.h"
#include "cost_model/spec/spec_json.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

using spec::ScheduleKind;

template <typename T>
T OneOf(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

Job RandomJob(std::mt19937& random) {
  Job job = RoundJob(0);
  const char* model =
      OneOf(random, {"small", "llama3.2-1b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b"});
  if (model != std::string("small")) job.model = spec::LoadModel(model);
  job.model.num_layers = 8 + static_cast<int>(random() % 9);
  job.runtime = spec::LoadRuntime(OneOf(random, {"tessera", "megatron-core", "megatron-lm-2021",
                                                 "megatron-deepspeed", "deepspeed", "torchtitan"}));
  job.training.global_batch_size = 96;
  return job;
}

spec::ParallelSpec RandomLayout(const Job& job, std::mt19937& random) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = OneOf(random, {1, 2, 4});
  parallel.pipeline_parallel_size = OneOf(random, {1, 2, 4});
  parallel.data_parallel_size = OneOf(random, {1, 3, 8});
  parallel.context_parallel_size = OneOf(random, {1, 2});
  if (job.model.moe) {
    parallel.expert_parallel_size = OneOf(random, {1, 2});
    parallel.expert_tensor_parallel_size = OneOf(random, {0, 1});
  }
  parallel.micro_batch_size = OneOf<int64_t>(random, {1, 2});
  parallel.sequence_parallel = random() % 2 == 0;
  parallel.zero_stage = static_cast<int>(random() % 4);
  parallel.bucket_elements = OneOf<int64_t>(random, {1'000'000, 40'000'000});
  parallel.recompute =
      OneOf(random, {spec::Recompute::kNone, spec::Recompute::kSelective, spec::Recompute::kFull});
  if (parallel.pipeline_parallel_size > 1) {
    parallel.schedule = OneOf(random, {ScheduleKind::kGPipe, ScheduleKind::kOneForwardOneBackward,
                                       ScheduleKind::kInterleaved, ScheduleKind::kZeroBubbleH1});
  }
  if (parallel.schedule == ScheduleKind::kInterleaved) {
    parallel.virtual_pipeline_size = 2;
    if (random() % 2 == 0) {
      parallel.microbatch_group_size =
          parallel.pipeline_parallel_size + static_cast<int>(random() % 3);
    }
  }
  parallel.overlap_tp_comm = random() % 2 == 0;
  parallel.overlap_pp_comm = random() % 2 == 0;
  parallel.scatter_gather_transfers = random() % 2 == 0;
  if (parallel.recompute == spec::Recompute::kFull && random() % 2 == 0) {
    for (const spec::VirtualStage& stage : spec::PartitionStages(job.model, parallel)) {
      parallel.recomputed_layers_per_virtual_stage.push_back(
          static_cast<int>(random() % (stage.num_layers + 1)));
    }
  }
  return parallel;
}

void ExpectSame(const spec::StageMemory& found, const spec::StageMemory& listed) {
  EXPECT_EQ(found.weights_bytes, listed.weights_bytes);
  EXPECT_EQ(found.gradients_bytes, listed.gradients_bytes);
  EXPECT_EQ(found.optimizer_bytes, listed.optimizer_bytes);
  EXPECT_EQ(found.activations_bytes, listed.activations_bytes);
  EXPECT_EQ(found.buffers_bytes, listed.buffers_bytes);
  EXPECT_EQ(found.reserve_bytes, listed.reserve_bytes);
  EXPECT_EQ(found.terms, listed.terms);
}

TEST(StepMemoryTest, EqualsListsOfParametersAndActionsToTheByte) {
  std::mt19937 random(17);
  int num_compared = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Job job = RandomJob(random);
    const spec::ParallelSpec parallel = RandomLayout(job, random);
    job.num_devices = spec::WorldSize(parallel);
    if (!spec::FindViolations(job.model, job.training, parallel, job.num_devices).empty()) continue;
    ++num_compared;
    JobCosts costs(job);
    const StepParts parts = MakeStepParts(costs, parallel);
    const auto found = StepMemory(costs, parallel, parts);
    const auto listed =
        MemoryOf(job.model, job.cluster, job.training, parallel, parts.stages, job.runtime);
    ASSERT_EQ(found.size(), listed.size());
    for (size_t stage = 0; stage < found.size(); ++stage) {
      SCOPED_TRACE(base::Concat(job.model.name, " ", job.runtime.name, " tp ",
                                parallel.tensor_parallel_size, " pp ",
                                parallel.pipeline_parallel_size, " zero ", parallel.zero_stage, " ",
                                spec::ToString(parallel.schedule), " stage ", stage));
      ExpectSame(found[stage], listed[stage]);
    }
    const StepBytes bytes = StepBytesOf(costs, parallel, parts);
    EXPECT_EQ(bytes.peak_bytes, static_cast<double>(PeakBytes(listed)));
    EXPECT_EQ(bytes.needed_bytes, NeededBytes(listed, job.cluster, parallel, job.runtime));
    EXPECT_LE(StepBytesOf(costs, parallel, parts, Padding::kNone).needed_bytes, bytes.needed_bytes);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(num_compared, 100);
}

TEST(ActivationPeakTest, IsThatOfTheActionsPlayed) {
  std::mt19937 random(19);
  for (int trial = 0; trial < 300; ++trial) {
    spec::ParallelSpec parallel;
    parallel.pipeline_parallel_size = 2 + static_cast<int>(random() % 5);
    parallel.schedule = OneOf(random, {ScheduleKind::kGPipe, ScheduleKind::kOneForwardOneBackward,
                                       ScheduleKind::kInterleaved, ScheduleKind::kZeroBubbleH1});
    const bool is_interleaved = parallel.schedule == ScheduleKind::kInterleaved;
    int num_microbatches = 1 + static_cast<int>(random() % 20);
    if (is_interleaved) {
      parallel.virtual_pipeline_size = 2 + static_cast<int>(random() % 4);
      const int group = parallel.pipeline_parallel_size + static_cast<int>(random() % 4);
      parallel.microbatch_group_size = group;
      num_microbatches *= group;
      if (group > parallel.pipeline_parallel_size && random() % 2 == 0) {
        num_microbatches += parallel.pipeline_parallel_size;  // a smaller last group
      }
    }
    const spec::PipelineSchedule schedule = spec::MakeSchedule(parallel, num_microbatches);
    for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
      std::vector<spec::StageActivationBytes> by_chunk(parallel.virtual_pipeline_size);
      for (spec::StageActivationBytes& bytes : by_chunk) {
        bytes.saved_bytes = bytes.layers_bytes = static_cast<int64_t>(random() % 100);
        bytes.working_bytes = bytes.saved_bytes + static_cast<int64_t>(random() % 50);
        bytes.weight_operand_bytes = static_cast<int64_t>(random() % 100);
        bytes.input_part_bytes = std::max(bytes.working_bytes, bytes.weight_operand_bytes) +
                                 static_cast<int64_t>(random() % 50);
      }
      EXPECT_EQ(spec::PeakActivationBytes(parallel, num_microbatches, stage, by_chunk),
                spec::PeakActivationBytes(schedule.actions_by_stage[stage],
                                          parallel.pipeline_parallel_size, by_chunk))
          << spec::ToString(parallel.schedule) << " stage " << stage << " of "
          << parallel.pipeline_parallel_size << ", " << parallel.virtual_pipeline_size
          << " chunks, " << num_microbatches << " micro-batches";
    }
  }
}

}  // namespace
}  // namespace tessera::cost_model
