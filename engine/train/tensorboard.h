// The steps of a run as scalars of TensorBoard.
#pragma once

#include <string>
#include <vector>

#include "engine/train/event_file.h"
#include "engine/train/train_job.h"

namespace tessera::engine {

// train/: loss, grad_norm, lr, weight_decay, global_batch_size, skipped, and where there are such
// loss_scale, balance_loss, router_z_loss; validation/loss; speed/: tokens_per_s,
// model_tflops_per_device, mfu, step_time_s, straggler_ratio; time/: the seconds of the first rank.
std::vector<Scalar> ScalarsOf(const StepRow& row);

}  // namespace tessera::engine
