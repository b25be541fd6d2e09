// Whole trainings whose passes are graphs, against the same without, bit by bit.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "tests/testing/golden_training.h"

namespace tessera::testing {
namespace {

engine::TrainOptions CudaOptions(const GoldenCase& golden, const spec::ParallelSpec& parallel,
                                 spec::Precision precision) {
  engine::TrainOptions options = GoldenOptions(golden, parallel);
  options.plan.training.precision = precision;
  options.device = engine::DeviceKind::kCuda;
  options.comm = options.plan.num_devices > 1 ? engine::CommKind::kNccl : engine::CommKind::kThread;
  return options;
}

struct Curve {
  std::vector<double> values;  // loss, gradient norm, loss scale of all steps
  double forward_s = 0;        // of the last step
};

Curve Train(engine::TrainOptions options, bool cuda_graph) {
  options.cuda_graph = cuda_graph;
  Curve curve;
  const engine::TrainCallbacks callbacks{.on_step = [&](const engine::StepRow& row) {
    curve.values.push_back(row.result.loss);
    curve.values.push_back(row.result.grad_norm);
    curve.values.push_back(row.result.loss_scale);
    curve.forward_s = row.result.time.forward_s;
  }};
  const std::atomic<bool> stop = false;
  engine::RunTraining(options, callbacks, stop);
  return curve;
}

// Data and learning rate change from step to step.
void ExpectSameBits(const engine::TrainOptions& options) {
  const Curve with = Train(options, /*cuda_graph=*/true);
  EXPECT_EQ(with.values, Train(options, /*cuda_graph=*/false).values)
      << NameOf(options.plan.parallel);
  EXPECT_GT(with.values.size(), 9U) << "more than the steps that are not only launched";
  EXPECT_GT(with.forward_s, 0) << "marks within a graph";
}

GoldenCase CaseNamed(const std::string& name) {
  for (const GoldenCase& golden : LoadGoldenCases()) {
    if (golden.name == name) return golden;
  }
  throw std::runtime_error("no golden case " + name);
}

TEST(GraphTrainingTest, AGraphOnOneGpuTrainsAsTheCallsDo) {
  for (const auto precision :
       {spec::Precision::kFp32, spec::Precision::kBf16, spec::Precision::kFp16}) {
    ExpectSameBits(CudaOptions(CaseNamed("llama-gqa"), {.micro_batch_size = 2}, precision));
  }
}

TEST(GraphTrainingTest, GraphsWithEveryKindOfCollectiveTrainAsTheCallsDo) {
  const std::vector<spec::ParallelSpec> layouts = {
      {.tensor_parallel_size = 2, .micro_batch_size = 4, .sequence_parallel = true},
      {.pipeline_parallel_size = 2, .micro_batch_size = 2},
      {.data_parallel_size = 2, .micro_batch_size = 2, .zero_stage = 3},
      {.data_parallel_size = 2,
       .micro_batch_size = 2,
       .recompute = spec::Recompute::kFull,
       .zero_stage = 1,
       .overlap_grad_reduce = true}};
  for (const spec::ParallelSpec& parallel : layouts) {
    ExpectSameBits(CudaOptions(CaseNamed("gpt2-odd-vocab"), parallel, spec::Precision::kBf16));
  }
}

std::string RefusalOf(const engine::TrainOptions& options) {
  try {
    Train(options, /*cuda_graph=*/true);
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(GraphTrainingTest, RanksThatTalkThroughTheHostAreRefused) {
  const GoldenCase golden = CaseNamed("gpt2-odd-vocab");
  engine::TrainOptions options =
      CudaOptions(golden, {.data_parallel_size = 2}, spec::Precision::kFp32);
  options.comm = engine::CommKind::kThread;
  EXPECT_EQ(RefusalOf(options),
            "--cuda-graph: found --comm thread with 2 devices, expected --comm nccl: what goes "
            "through host memory makes the host wait in every pass");
}

}  // namespace
}  // namespace tessera::testing
