#include "planner/what_if/economics.h"

#include <cmath>

#include "cost_model/base/check.h"
#include "cost_model/spec/parameter_list.h"

namespace tessera::planner {
namespace {

constexpr double kWattsPerKilowatt = 1000;

double CheckpointSeconds(const cost_model::Job& job, const RunTerms& terms) {
  if (terms.checkpoint_s) return terms.checkpoint_s->value;
  const double bandwidth = terms.storage_bandwidth_bytes_per_s
                               ? terms.storage_bandwidth_bytes_per_s->value
                               : terms.storage_bandwidth_bytes_per_s_per_device.value *
                                     static_cast<double>(job.num_devices);
  return CheckpointBytes(job) / bandwidth;
}

}  // namespace

double RunFigures::Days() const { return wall_s / kSecondsPerDay; }

std::optional<double> PriceOf(const spec::ClusterSpec& cluster, const RunTerms& terms) {
  const auto given = terms.price_per_device_hour.find(cluster.name);
  if (given != terms.price_per_device_hour.end()) return given->second;
  if (cluster.device.price_per_hour > 0) return cluster.device.price_per_hour;
  return std::nullopt;
}

double CheckpointBytes(const cost_model::Job& job) {
  constexpr int64_t kMomentBytes = 2 * 4;
  constexpr int64_t kMasterBytes = 4;
  const spec::PrecisionTypes types = spec::TypesOf(job.training.precision);
  const int64_t bytes = base::SizeBytes(types.parameter) + kMomentBytes +
                        (types.has_master_weights ? kMasterBytes : 0);
  return static_cast<double>(spec::NumParameters(job.model)) * static_cast<double>(bytes);
}

RunFigures EstimateRun(const cost_model::Job& job, const spec::StepReport& report,
                       const RunTerms& terms) {
  TESSERA_CHECK(terms.tokens && report.tokens_per_s > 0, "a run without tokens");
  const double num_devices = job.num_devices;
  RunFigures run;
  run.mtbf_s = terms.mtbf_device_s.value / num_devices;
  run.checkpoint_s = CheckpointSeconds(job, terms);
  run.goodput = BestGoodput(
      {.mtbf_s = run.mtbf_s, .checkpoint_s = run.checkpoint_s, .restart_s = terms.restart_s.value});
  run.effective_tokens_per_s = report.tokens_per_s * run.goodput.useful_share;
  run.wall_s = *terms.tokens / run.effective_tokens_per_s;
  run.expected_failures = run.wall_s / run.mtbf_s;
  run.device_hours = run.wall_s / kSecondsPerHour * num_devices;
  const std::optional<double> price = PriceOf(job.cluster, terms);
  if (price) run.cost_usd = run.device_hours * *price;
  if (job.cluster.device.power_w > 0) {
    run.energy_kwh = run.device_hours * job.cluster.device.power_w / kWattsPerKilowatt *
                     terms.node_power_factor.value * terms.power_usage_effectiveness.value;
  }
  return run;
}

}  // namespace tessera::planner
