#include "planner/validation/row_result.h"

#include "cost_model/memory.h"
#include "cost_model/step_cost.h"

namespace tessera::planner {
namespace {

// The rank whose memory the row shows: the fullest, or the last.
const spec::StageMemory& StageShown(const Measurement& measurement,
                                    const std::vector<spec::StageMemory>& stages) {
  if (measurement.memory_metric.find("last rank") != std::string::npos) return stages.back();
  size_t fullest = 0;
  for (size_t i = 1; i < stages.size(); ++i) {
    if (stages[i].Total() > stages[fullest].Total()) fullest = i;
  }
  return stages[fullest];
}

// The statistic that a row measured. Where its class is not specified, its metric may still name
// nvidia-smi; otherwise a framework printed it, which asks its allocator.
cost_model::MemoryStatistic StatisticOf(const Measurement& measurement) {
  switch (measurement.memory_class) {
    case MemoryClass::kAllocated:
      return cost_model::MemoryStatistic::kAllocated;
    case MemoryClass::kReserved:
      return cost_model::MemoryStatistic::kReserved;
    case MemoryClass::kNvidiaSmi:
      return cost_model::MemoryStatistic::kUsed;
    case MemoryClass::kUnspecified:
      break;
  }
  const bool is_device = measurement.memory_metric.find("nvidia-smi") != std::string::npos;
  return is_device ? cost_model::MemoryStatistic::kUsed : cost_model::MemoryStatistic::kReserved;
}

std::string WhyUnpriced(const cost_model::Job& job, const spec::ParallelSpec& parallel) {
  std::vector<spec::Violation> violations = cost_model::FindUnpriced(job, parallel);
  if (violations.empty()) {
    violations = spec::FindViolations(job.model, job.training, parallel, job.num_devices);
  }
  return violations.empty() ? "" : violations.front().message;
}

// Whether a layout's tensors fit, without what the allocator may hold beyond them: then it may be
// the one that a row ran.
bool MayHaveRun(const cost_model::StepPrice& price, const spec::RuntimeSpec& runtime) {
  if (price.violations.empty()) return true;
  const spec::Violation& memory = price.violations.front();
  const double beyond_tensors = runtime.allocator_reserve + runtime.allocator_reserve_margin;
  return memory.needed <= memory.available * (1 + beyond_tensors);
}

bool IsBetter(const cost_model::StepPrice& price, const cost_model::StepPrice& best,
              const spec::RuntimeSpec& runtime) {
  const bool may_have_run = MayHaveRun(price, runtime);
  if (may_have_run != MayHaveRun(best, runtime)) return may_have_run;
  if (may_have_run) return price.report.step_time_s < best.report.step_time_s;
  return price.report.peak_bytes < best.report.peak_bytes;
}

}  // namespace

RowResult PriceRow(const Measurement& measurement, JobMaker& jobs) {
  RowResult result;
  result.measurement = measurement;
  MeasuredJob measured = jobs.Make(measurement);
  result.skipped = measured.skipped;
  if (!result.skipped.empty()) return result;
  result.cluster = measured.job.cluster.name;
  result.runtime = measured.job.runtime.name;
  cost_model::JobCosts costs(std::move(measured.job));
  std::optional<cost_model::StepPrice> best;
  for (const LayoutChoice& choice : measured.choices) {
    const std::string reason = WhyUnpriced(costs.job(), choice.parallel);
    if (!reason.empty()) {
      if (!best) result.skipped = reason;
      continue;
    }
    cost_model::StepPrice price = cost_model::PriceStep(costs, choice.parallel);
    result.fits |= price.violations.empty();
    if (best && !IsBetter(price, *best, costs.job().runtime)) continue;
    best = std::move(price);
    result.skipped.clear();
    result.parallel = choice.parallel;
    result.assumed = choice.assumed;
  }
  if (!best) return result;
  result.report = std::move(best->report);
  result.predicted_step_time_s = result.report.step_time_s;
  result.predicted_peak_memory_bytes = static_cast<double>(
      cost_model::BytesIn(StageShown(measurement, result.report.stages), StatisticOf(measurement)));
  return result;
}

}  // namespace tessera::planner
