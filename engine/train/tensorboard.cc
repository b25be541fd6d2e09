#include "engine/train/tensorboard.h"

namespace tessera::engine {

std::vector<Scalar> ScalarsOf(const StepRow& row) {
  std::vector<Scalar> scalars;
  const auto add = [&](const char* tag, double value) {
    scalars.push_back({tag, static_cast<float>(value)});
  };
  const StepResult& result = row.result;
  add("train/loss", result.loss);
  add("train/grad_norm", result.grad_norm);
  add("train/lr", result.lr);
  add("train/weight_decay", result.weight_decay);
  add("train/global_batch_size", static_cast<double>(result.batch_size));
  add("train/skipped", result.skipped ? 1 : 0);
  if (result.loss_scale > 0) add("train/loss_scale", result.loss_scale);
  if (row.has_experts) {
    add("train/balance_loss", result.balance_loss);
    add("train/router_z_loss", result.router_z_loss);
  }
  if (row.validation_loss) add("validation/loss", *row.validation_loss);
  add("speed/tokens_per_s", row.tokens_per_s);
  add("speed/model_tflops_per_device", row.model_tflops_per_device);
  add("speed/mfu", row.mfu);
  add("speed/step_time_s", result.step_time_s);
  if (result.straggler) add("speed/straggler_ratio", result.straggler->ratio());
  const spec::TimeBreakdown& time = result.time;
  add("time/forward_s", time.forward_s);
  add("time/backward_s", time.backward_s);
  add("time/tp_comm_s", time.tp_comm_s);
  add("time/cp_comm_s", time.cp_comm_s);
  add("time/ep_comm_s", time.ep_comm_s);
  add("time/pp_wait_s", time.bubble_s);
  add("time/dp_comm_s", time.dp_comm_s);
  add("time/optimizer_s", time.optimizer_s);
  add("time/other_s", time.other_s);
  return scalars;
}

}  // namespace tessera::engine
