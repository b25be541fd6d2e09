// Step times that a paper measured.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cost_model/spec/spec_json.h"
#include "cost_model/step_cost.h"

namespace tessera::cost_model {
namespace {

struct PublishedStep {
  std::string model;
  int num_devices;
  int tp, pp, vpp;
  int64_t micro_batch_size, global_batch_size;
  double full_s;       // full recomputation
  double selective_s;  // selective recomputation and sequence parallelism
};

// Korthikanti et al. 2022, arXiv:2205.05198, Tables 3 and 5: A100 80 GB, sequence 2048.
const PublishedStep kSteps[] = {
    {"megatron-22b", 8, 8, 1, 1, 4, 4, 1.42, 1.10},
    {"gpt3-175b", 64, 8, 8, 3, 1, 64, 18.13, 13.75},
    {"turing-530b", 280, 8, 35, 3, 1, 280, 49.05, 37.83},
    {"megatron-1t", 512, 8, 64, 1, 1, 512, 94.42, 71.49},
};

double PredictedSeconds(const PublishedStep& step, bool is_selective) {
  Job job;
  job.model = spec::LoadModel(step.model);
  job.cluster = spec::LoadCluster("dgx-a100-80gb");
  job.num_devices = step.num_devices;
  job.runtime = spec::LoadRuntime("megatron-lm-2022");
  job.training.global_batch_size = step.global_batch_size;
  job.training.sequence_length = 2048;
  job.training.precision = spec::Precision::kFp16;
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = step.tp;
  parallel.pipeline_parallel_size = step.pp;
  parallel.virtual_pipeline_size = step.vpp;
  if (step.vpp > 1) parallel.schedule = spec::ScheduleKind::kInterleaved;
  parallel.micro_batch_size = step.micro_batch_size;
  parallel.attention = spec::AttentionKind::kUnfused;
  parallel.zero_stage = 0;
  parallel.sequence_parallel = is_selective;
  parallel.scatter_gather_transfers = true;
  parallel.recompute = is_selective ? spec::Recompute::kSelective : spec::Recompute::kFull;
  JobCosts costs(job);
  return PriceStep(costs, parallel).report.step_time_s;
}

TEST(PublishedStepsTest, KorthikantiTable5) {
  double sum_of_errors = 0;
  for (const PublishedStep& step : kSteps) {
    for (const bool is_selective : {false, true}) {
      const double measured_s = is_selective ? step.selective_s : step.full_s;
      const double predicted_s = PredictedSeconds(step, is_selective);
      const double error = std::abs(predicted_s / measured_s - 1);
      EXPECT_LT(error, 0.10) << step.model << ": predicted " << predicted_s << ", measured "
                             << measured_s;
      sum_of_errors += error;
    }
  }
  EXPECT_LT(sum_of_errors / 8, 0.04);
}

// Narayanan et al. 2021, arXiv:2104.04473: 44 to 52 % of peak for 145B to 1T parameters on 1,536
// to 3,072 A100, full recomputation counted as work.
TEST(PublishedStepsTest, LargeModelsReachAPlausibleShareOfPeak) {
  Job job;
  job.model = spec::LoadModel("gpt3-175b");
  job.cluster = spec::LoadCluster("dgx-a100-80gb");
  job.num_devices = 1024;
  job.runtime = spec::LoadRuntime("megatron-lm-2021");
  job.training.global_batch_size = 1536;
  job.training.sequence_length = 2048;
  job.training.precision = spec::Precision::kFp16;
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = 8;
  parallel.pipeline_parallel_size = 8;
  parallel.data_parallel_size = 16;
  parallel.attention = spec::AttentionKind::kUnfused;
  parallel.recompute = spec::Recompute::kFull;
  JobCosts costs(job);
  const double hfu = PriceStep(costs, parallel).report.hfu;
  EXPECT_GT(hfu, 0.40);
  EXPECT_LT(hfu, 0.58);
}

}  // namespace
}  // namespace tessera::cost_model
