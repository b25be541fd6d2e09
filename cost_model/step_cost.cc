#include "cost_model/step_cost.h"

#include "cost_model/memory.h"
#include "cost_model/spec/throughput.h"
#include "cost_model/step_account.h"
#include "cost_model/step_memory.h"
#include "cost_model/step_pricer.h"

namespace tessera::cost_model {
namespace {

// Forward work that a step runs a second time, on all devices. [FLOPs]
double RecomputedFlops(const StepParts& parts, const spec::ParallelSpec& parallel) {
  double flops = 0;
  for (const BlockCost& cost : parts.costs) flops += cost.recompute_flops;
  return flops * static_cast<double>(parts.num_microbatches) * spec::GradientGroupSize(parallel) *
         parallel.tensor_parallel_size;
}

}  // namespace

StepPrice PriceStep(JobCosts& costs, const spec::ParallelSpec& parallel) {
  const Job& job = costs.job();
  const StepParts parts = MakeStepParts(costs, parallel);
  const PipelineRun run = RunPipeline(costs, parallel, parts);
  StepPrice price;
  price.report.time = AccountStep(costs, parallel, parts, run);
  price.report.step_time_s = price.report.time.Total();
  price.report.hardware_flops = spec::ModelFlopsPerStep(job.model, job.training, job.convention) +
                                RecomputedFlops(parts, parallel);
  spec::FillThroughput(job.model, job.training, job.cluster, job.num_devices, job.convention,
                       price.report);
  price.report.stages = StepMemory(costs, parallel, parts);
  price.report.peak_bytes = PeakBytes(price.report.stages);
  if (auto violation =
          FindMemoryViolation(price.report.stages, job.cluster, parallel, job.runtime)) {
    price.violations.push_back(*std::move(violation));
  }
  return price;
}

double StepSeconds(JobCosts& costs, const spec::ParallelSpec& parallel) {
  const StepParts parts = MakeStepParts(costs, parallel);
  return AccountStep(costs, parallel, parts, RunPipeline(costs, parallel, parts)).Total();
}

FastPrice PriceStepFast(JobCosts& costs, const spec::ParallelSpec& parallel) {
  const Job& job = costs.job();
  StepPricer pricer(costs);
  FastPrice price;
  price.step_time_s = pricer.StepSeconds(parallel);
  const StepBytes memory = StepBytesOf(costs, parallel, pricer.parts());
  price.peak_bytes = memory.peak_bytes;
  price.needed_bytes = memory.needed_bytes;
  price.available_bytes = static_cast<double>(job.cluster.device.memory_bytes);
  return price;
}

}  // namespace tessera::cost_model
