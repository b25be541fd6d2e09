#pragma once

#include "cost_model/spec/op_list.h"
#include "cost_model/spec/step_report.h"

namespace tessera::spec {

// Fills the rates of a report from its step_time_s and hardware_flops: tokens per second, model and
// hardware TFLOP/s per device, MFU = model FLOPs / (time * devices * dense peak), HFU likewise.
// MFU and HFU stay 0 where the cluster gives no peak for the precision.
void FillThroughput(const ModelSpec& model, const TrainingSpec& training,
                    const ClusterSpec& cluster, int num_devices, FlopsConvention convention,
                    StepReport& report);

}  // namespace tessera::spec
