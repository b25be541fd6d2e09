// What of a step's time and memory a user can do better, and how: of a prediction before a run, of
// a measurement after it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/model_spec.h"
#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/step_report.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

enum class WarningKind : uint8_t {
  kTensorAcrossNodes,
  kUnevenMemory,
  kSmallShapes,
  kExposedCommunication,
  kBubble,
  kStraggler,
};
std::string_view ToString(WarningKind kind);  // "tensor_across_nodes", ...

struct StepWarning {
  WarningKind kind = WarningKind::kBubble;
  std::string what;    // and how much
  std::string remedy;  // what to change
  double share = 0;    // the number that passed its threshold
  bool operator==(const StepWarning&) const = default;
};

// "what: remedy".
std::string ToString(const StepWarning& warning);

// Thresholds, and why they lie there.
//
// Of the step; (p - 1) / m of the passes is 0.25 at the rule of thumb of 4 micro-batches a stage
// (Huang et al. 2019, arXiv:1811.06965, section 2.3), a fifth of the step.
inline constexpr double kBubbleShare = 0.2;
// Of the step. Well laid out trainings of the published tables lose less.
inline constexpr double kExposedCommunicationShare = 0.2;
// The fullest stage over the leanest. Evenness gains nothing where a device has room: told only
// where the fullest takes kCrowdedShare of its memory.
inline constexpr double kUnevenMemoryRatio = 1.5;
inline constexpr double kCrowdedShare = 0.5;
// Of what large products reach, of the layers' largest one; told only where the step as a whole
// stays below kLowUtilisation of the peak.
inline constexpr double kSmallProductShare = 0.5;
inline constexpr double kLowUtilisation = 0.4;
// Compute time over the median of ranks with the same work. Devices of one kind differ by some
// percent; told only where the excess is kStragglerStepShare of the step.
inline constexpr double kStragglerRatio = 1.2;
inline constexpr double kStragglerStepShare = 0.05;

// All but stragglers, which a report of a step does not show, in the order of the kinds.
// REQUIRES: FindViolations is empty; report.step_time_s > 0.
std::vector<StepWarning> FindStepWarnings(const ModelSpec& model, const ClusterSpec& cluster,
                                          const TrainingSpec& training,
                                          const ParallelSpec& parallel, const StepReport& report);

}  // namespace tessera::spec
