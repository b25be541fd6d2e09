// The whole CUDA engine, unchanged, trains the golden cases on the emulation: its kernels, streams
// and arena, cuBLASLt's and NCCL's doubles with all their checks.
#include "tests/testing/golden_training.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "tests/cuda_emulation/execution/settings.h"
#include "tests/cuda_emulation/scopes.h"

namespace tessera::testing {
namespace {

using cuda_emulation::StreamOrder;

// The axes and what goes with them, each choice of sharding and recomputation somewhere.
std::vector<spec::ParallelSpec> Layouts() {
  return {{.micro_batch_size = 2, .recompute = spec::Recompute::kSelective},
          {.tensor_parallel_size = 2,
           .micro_batch_size = 4,
           .zero_stage = 0,
           .attention = spec::AttentionKind::kUnfused},
          {.pipeline_parallel_size = 2, .micro_batch_size = 2},
          {.data_parallel_size = 2, .micro_batch_size = 2, .recompute = spec::Recompute::kFull},
          {.tensor_parallel_size = 2,
           .pipeline_parallel_size = 2,
           .data_parallel_size = 2,
           .micro_batch_size = 2,
           .sequence_parallel = true}};
}

engine::TrainOptions CudaOptions(const GoldenCase& golden, const spec::ParallelSpec& parallel,
                                 spec::Precision precision, engine::CommKind comm) {
  engine::TrainOptions options = GoldenOptions(golden, parallel);
  options.plan.training.precision = precision;
  options.device = engine::DeviceKind::kCuda;
  options.comm = comm;
  return options;
}

class EmulatedTrainingTest : public ::testing::TestWithParam<GoldenCase> {
 protected:
  // One case of each family, for what takes long and sees no other difference between them.
  static bool IsTypical() {
    return GetParam().name == "gpt2-odd-vocab" || GetParam().name == "llama-gqa";
  }
};

TEST_P(EmulatedTrainingTest, TrainsInFp32AsTheReference) {
  for (const spec::ParallelSpec& parallel : Layouts()) {
    EXPECT_TRUE(TrainAndCompare(
        GetParam(),
        CudaOptions(GetParam(), parallel, spec::Precision::kFp32, engine::CommKind::kNccl)));
  }
}

TEST_P(EmulatedTrainingTest, TrainsInBf16NearTheReference) {
  const std::vector<spec::ParallelSpec> all_axes = {Layouts().back()};
  for (const spec::ParallelSpec& parallel : IsTypical() ? Layouts() : all_axes) {
    EXPECT_TRUE(TrainAndCompare(
        GetParam(),
        CudaOptions(GetParam(), parallel, spec::Precision::kBf16, engine::CommKind::kNccl),
        kBf16Tolerance));
  }
}

TEST_P(EmulatedTrainingTest, RanksThatShareADeviceTrainAsTheReference) {
  const cuda_emulation::Scope one_device = cuda_emulation::WithDeviceCount(1);
  EXPECT_TRUE(
      TrainAndCompare(GetParam(), CudaOptions(GetParam(), Layouts().back(), spec::Precision::kFp32,
                                              engine::CommKind::kThread)));
}

// Losses and gradient norms of all steps.
std::vector<double> CurveOf(const engine::TrainOptions& options) {
  std::vector<double> values;
  const engine::TrainCallbacks callbacks{.on_step = [&](const engine::StepRow& row) {
    values.push_back(row.result.loss);
    values.push_back(row.result.grad_norm);
  }};
  const std::atomic<bool> stop = false;
  engine::RunTraining(options, callbacks, stop);
  return values;
}

// Losses of all steps.
std::vector<double> Losses(const engine::TrainOptions& options) {
  std::vector<double> values = CurveOf(options);
  for (size_t i = 0; i < values.size() / 2; ++i) values[i] = values[2 * i];
  values.resize(values.size() / 2);
  return values;
}

// Kernels that draw their masks by themselves: on CUDA cores in fp32 and with kept probabilities,
// on tensor cores in 16 bits.
TEST_P(EmulatedTrainingTest, DropoutDropsWhatTheCpuDrops) {
  if (!IsTypical()) GTEST_SKIP() << "the cases differ in nothing that masks see";
  const auto options = [&](const spec::ParallelSpec& parallel, spec::Precision precision) {
    engine::TrainOptions all =
        CudaOptions(GetParam(), parallel, precision, engine::CommKind::kNccl);
    all.plan.training.dropout = {.hidden = 0.1, .attention = 0.2, .embedding = 0.1};
    all.plan.training.steps = 4;
    return all;
  };
  engine::TrainOptions on_cpu = options({}, spec::Precision::kFp32);
  on_cpu.device = engine::DeviceKind::kCpu;
  on_cpu.comm = engine::CommKind::kThread;
  const std::vector<double> expected = Losses(on_cpu);
  const auto expect = [&](const spec::ParallelSpec& parallel, spec::Precision precision,
                          double tolerance) {
    const std::vector<double> found = Losses(options(parallel, precision));
    for (size_t step = 0; step < expected.size(); ++step) {
      ExpectClose(found.at(step), expected[step], tolerance,
                  base::Concat(NameOf(parallel), " ", ToString(precision), " step ", step + 1));
    }
  };
  std::vector<spec::ParallelSpec> layouts = Layouts();
  layouts.push_back({.context_parallel_size = 2});
  for (const spec::ParallelSpec& parallel : layouts) {
    expect(parallel, spec::Precision::kFp32, kFp32Tolerance.loss);
  }
  expect({}, spec::Precision::kBf16, kBf16Tolerance.loss);
}

TEST_P(EmulatedTrainingTest, TheOrderOfStreamsChangesNoBit) {
  if (!IsTypical()) GTEST_SKIP() << "the cases differ in nothing that streams see";
  const engine::TrainOptions options =
      CudaOptions(GetParam(), Layouts().back(), spec::Precision::kBf16, engine::CommKind::kNccl);
  const std::vector<double> eager = CurveOf(options);
  for (const uint64_t seed : {0, 1}) {
    const auto order = cuda_emulation::WithStreamOrder(StreamOrder::kAdversarial, seed);
    EXPECT_EQ(CurveOf(options), eager) << "seed " << seed;
  }
}

// Experts over data ranks, and over both data and tensor ranks; of one case, which has routers with
// a loss of their own.
class EmulatedExpertTrainingTest : public EmulatedTrainingTest {
 protected:
  static std::vector<spec::ParallelSpec> ExpertLayouts() {
    return {{.data_parallel_size = 2,
             .expert_parallel_size = 2,
             .micro_batch_size = 2,
             .recompute = spec::Recompute::kFull},
            {.tensor_parallel_size = 2,
             .data_parallel_size = 2,
             .expert_parallel_size = 2,
             .micro_batch_size = 2,
             .sequence_parallel = true}};
  }
};

TEST_P(EmulatedExpertTrainingTest, TrainsAsTheReference) {
  for (const spec::ParallelSpec& parallel : ExpertLayouts()) {
    EXPECT_TRUE(TrainAndCompare(
        GetParam(),
        CudaOptions(GetParam(), parallel, spec::Precision::kFp32, engine::CommKind::kNccl)));
  }
}

TEST_P(EmulatedExpertTrainingTest, RanksThatShareADeviceTrainAsTheReference) {
  const cuda_emulation::Scope one_device = cuda_emulation::WithDeviceCount(1);
  EXPECT_TRUE(
      TrainAndCompare(GetParam(), CudaOptions(GetParam(), ExpertLayouts().back(),
                                              spec::Precision::kFp32, engine::CommKind::kThread)));
}

INSTANTIATE_TEST_SUITE_P(Cases, EmulatedExpertTrainingTest,
                         ::testing::Values(LoadExpertGoldenCases().front()),
                         [](const auto& /*test*/) { return std::string("mixtral"); });

INSTANTIATE_TEST_SUITE_P(Cases, EmulatedTrainingTest, ::testing::ValuesIn(LoadGoldenCases()),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
