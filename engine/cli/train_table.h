#pragma once

#include <optional>
#include <ostream>

#include "engine/train/train_job.h"

namespace tessera::engine {

// One line for a step: loss, lr, gradient norm, speed, time left.
void PrintStep(const StepRow& row, double elapsed_s, int64_t first_step, std::ostream& out);

// Predicted beside measured: step time and its parts, memory by stage, then every rank.
void PrintReport(const TrainReport& report, const std::optional<spec::StepReport>& prediction,
                 std::ostream& out);

}  // namespace tessera::engine
