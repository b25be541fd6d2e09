#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "engine/train/train_job.h"

namespace tessera::engine {

// Appends one JSON object a line for each step: step, loss, grad_norm, lr, weight_decay,
// global_batch_size, consumed_samples, consumed_tokens, step_time_s, tokens_per_s,
// model_tflops_per_device, mfu, and the seconds of the first rank's forward and backward passes,
// communication per axis, waiting and optimizer; of experts also balance_loss and router_z_loss, in
// fp16 loss_scale and whether the step was skipped, of other skipped steps the anomaly, of several
// ranks the straggler of the step before, after an evaluation validation_loss and its time.
class MetricsWriter {
 public:
  // `append`: after the rows of an earlier run (resumed training) instead of over them. The first
  // row replaces them, or those of its own step and later ones, which the earlier run had done
  // beyond the checkpoint; so a run refused before it leaves the file as it was.
  // Throws base::SystemError when the file cannot be opened.
  MetricsWriter(const std::string& path, bool append);
  // Throws base::SystemError when the row cannot be written.
  void Write(const StepRow& row);

 private:
  // Leaves the rows of steps before `step`.
  void KeepRowsBefore(int64_t step);

  std::string path_;
  bool appends_;
  bool has_written_ = false;
  std::ofstream file_;
};

// The closing report of a run as one JSON object; "predicted" is null for a plan that has no
// prediction.
std::string WriteTrainReport(const TrainReport& report,
                             const std::optional<spec::StepReport>& prediction);

}  // namespace tessera::engine
