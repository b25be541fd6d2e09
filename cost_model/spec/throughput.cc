#include "cost_model/spec/throughput.h"

#include "cost_model/spec/device_peak.h"

namespace tessera::spec {

void FillThroughput(const ModelSpec& model, const TrainingSpec& training,
                    const ClusterSpec& cluster, int num_devices, FlopsConvention convention,
                    StepReport& report) {
  constexpr double kFlopsPerTflop = 1e12;
  const double tokens = static_cast<double>(training.global_batch_size * training.sequence_length);
  const double device_seconds = report.step_time_s * num_devices;
  report.tokens_per_s = tokens / report.step_time_s;
  report.tokens_per_s_per_device = tokens / device_seconds;
  report.model_flops = ModelFlopsPerStep(model, training, convention);
  const double model_rate = report.model_flops / device_seconds;
  const double hardware_rate = report.hardware_flops / device_seconds;
  report.model_tflops_per_device = model_rate / kFlopsPerTflop;
  report.hardware_tflops_per_device = hardware_rate / kFlopsPerTflop;
  if (!cluster.device.peak_flops_per_s.contains(TypesOf(training.precision).matmul)) return;
  const double peak = PeakFlopsPerDevice(cluster, training.precision, num_devices);
  report.mfu = model_rate / peak;
  report.hfu = hardware_rate / peak;
}

}  // namespace tessera::spec
