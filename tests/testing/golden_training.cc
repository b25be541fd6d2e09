#include "tests/testing/golden_training.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

namespace tessera::testing {

std::string NameOf(const spec::ParallelSpec& p) {
  return "tp" + std::to_string(p.tensor_parallel_size) + " pp" +
         std::to_string(p.pipeline_parallel_size) + " dp" + std::to_string(p.data_parallel_size) +
         " vpp" + std::to_string(p.virtual_pipeline_size) + " ep" +
         std::to_string(p.expert_parallel_size) + " etp" +
         std::to_string(p.expert_tensor_parallel_size) + " mbs" +
         std::to_string(p.micro_batch_size) + (p.sequence_parallel ? " sp" : "") + " zero" +
         std::to_string(p.zero_stage) + " recompute " + std::string(ToString(p.recompute)) +
         " attention " + std::string(ToString(p.attention));
}

engine::TrainOptions GoldenOptions(const GoldenCase& golden, const spec::ParallelSpec& parallel) {
  spec::Plan plan{.model = golden.model, .training = golden.training, .parallel = parallel};
  plan.num_devices = spec::WorldSize(parallel);
  plan.threads_per_rank = 1;
  return {.plan = plan,
          .data_path = golden.dir + "/tokens.bin",
          .data_format = engine::DataFormat::kRawU16,
          .data_order = engine::DataOrder::kSequential,
          .init_hf_dir = golden.dir,
          .timeout_s = 60};
}

bool TrainAndCompare(const GoldenCase& golden, const engine::TrainOptions& options,
                     const GoldenTolerance& tolerance) {
  const spec::Plan& plan = options.plan;
  if (!spec::FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty()) {
    return false;
  }
  SCOPED_TRACE(golden.name + ", " + NameOf(plan.parallel));
  size_t num_steps = 0;
  const engine::TrainCallbacks callbacks{.on_step = [&](const engine::StepRow& row) {
    ASSERT_LT(num_steps, golden.steps.size());
    const GoldenStep& expected = golden.steps[num_steps++];
    const std::string step = " of step " + std::to_string(num_steps);
    ExpectClose(row.result.loss, expected.loss, tolerance.loss, "loss" + step);
    ExpectClose(row.result.grad_norm, expected.grad_norm, tolerance.grad_norm,
                "gradient norm" + step);
    ExpectClose(row.result.balance_loss, expected.balance_loss, tolerance.loss,
                "balance loss" + step);
    ExpectClose(row.result.lr, expected.lr, 1e-9, "learning rate" + step);
  }};
  const std::atomic<bool> stop = false;
  engine::RunTraining(options, callbacks, stop);
  EXPECT_EQ(num_steps, golden.steps.size());
  return true;
}

void ExpectClose(double actual, double expected, double tolerance, const std::string& what) {
  EXPECT_LE(std::abs(actual - expected), tolerance * std::abs(expected))
      << what << ": " << actual << " instead of " << expected;
}

}  // namespace tessera::testing
