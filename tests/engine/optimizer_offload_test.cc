// An optimizer on the host updates as one on the device does, and takes no memory there.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "engine/train/rank_trainer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/conformance_run.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

// Computes as the CPU does, in memory that nobody takes for the host's.
class DistantBackend : public kernels::CpuBackend {
 public:
  DistantBackend() : CpuBackend(1) {}
  bool is_host_memory() const override { return false; }
};

class DistantDevice final : public RankDevice {
 public:
  explicit DistantDevice(Communicator& world) : world_(world) {}
  kernels::Backend& backend() override { return backend_; }
  Communicator& world() override { return world_; }

 private:
  DistantBackend backend_;
  Communicator& world_;
};

struct OffloadOutcome {
  std::vector<double> losses;
  std::map<int, std::vector<float>> weights;  // by rank, what it owns
  int64_t optimizer_bytes = 0;
};

// Trains two steps, takes the state to the host and back, and trains another two.
OffloadOutcome TrainDistant(spec::Plan plan, bool offloads) {
  plan.parallel.offload_optimizer = offloads;
  plan.cluster.shared_compute_units = 0;
  plan = testing::WithPredictedMemory(plan);
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  OffloadOutcome outcome;
  std::mutex mutex;
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    DistantDevice device(world);
    RankTrainer trainer(plan, device, world, source);
    for (int step = 0; step < 4; ++step) {
      const StepResult result = trainer.Step(false);
      if (step == 1) trainer.State().Upload();
      const std::lock_guard lock(mutex);
      if (world.rank() == 0) outcome.losses.push_back(result.loss);
    }
    const HostState host = trainer.State();
    const std::lock_guard lock(mutex);
    std::vector<float>& weights = outcome.weights[world.rank()];
    weights.assign(host.state().weights, host.state().weights + NumWeights(host.state()));
    const auto stage = static_cast<size_t>(trainer.coord().pipeline);
    const spec::StageMemory memory = trainer.MeasuredMemory();
    EXPECT_EQ(memory.optimizer_bytes, plan.prediction->stages[stage].optimizer_bytes);
    EXPECT_EQ(memory.buffers_bytes, plan.prediction->stages[stage].buffers_bytes);
    EXPECT_EQ(trainer.BeyondArenaBytes(), 0);
    outcome.optimizer_bytes += memory.optimizer_bytes;
  });
  return outcome;
}

TEST(OptimizerOffloadTest, TheHostUpdatesAsTheDeviceDoes) {
  for (const auto precision :
       {spec::Precision::kFp32, spec::Precision::kBf16, spec::Precision::kFp16}) {
    spec::Plan plan = testing::ConformancePlans(precision).front().plan;
    for (const int zero_stage : {0, 1, 3}) {
      plan.parallel = {.data_parallel_size = 2,
                       .zero_stage = zero_stage,
                       .vocab_size_multiple = 8,
                       .bucket_elements = 5000};
      plan.num_devices = 2;
      const OffloadOutcome on_device = TrainDistant(plan, /*offloads=*/false);
      const OffloadOutcome on_host = TrainDistant(plan, /*offloads=*/true);
      EXPECT_EQ(on_host.losses, on_device.losses) << ToString(precision) << " zero " << zero_stage;
      EXPECT_EQ(on_host.weights, on_device.weights);
      EXPECT_GT(on_device.optimizer_bytes, 0);
      EXPECT_EQ(on_host.optimizer_bytes, 0);
    }
  }
}

// Where host memory is all there is nothing is offloaded, and nothing less is predicted.
TEST(OptimizerOffloadTest, APoolOfCoresHoldsTheStateItself) {
  spec::Plan plan = testing::ConformancePlans().front().plan;
  plan.parallel.offload_optimizer = true;
  plan = testing::WithPredictedMemory(plan);
  const auto make_device = [](Communicator& world) { return MakeRankDevice({}, world); };
  for (const testing::RankOutcome& rank : testing::RunPlan(plan, make_device)) {
    testing::ExpectPredictedMemory(plan, rank);
    EXPECT_GT(rank.memory.optimizer_bytes, 0);
  }
}

}  // namespace
}  // namespace tessera::engine
