// Two trainings of one model under two layouts, held against each other tensor by tensor.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/global_state.h"
#include "engine/train/train_job.h"

namespace tessera::engine {

// In the order in which they are compared: what comes first in a training is nearest to the fault.
// The loss of the first step, its gradients in the order of the backward pass (the head's first),
// its gradient norm, losses and norms of the other steps, then weights and moments after the last
// one in the order of the forward pass.
enum class ComparedKind : uint8_t {
  kLoss,
  kGradient,
  kGradientNorm,
  kWeight,
  kFirstMoment,
  kSecondMoment,
};
inline constexpr size_t kNumComparedKinds = 6;
std::string_view ToString(ComparedKind kind);  // "loss", "gradient", ...

// One number or tensor of both trainings.
struct Difference {
  ComparedKind kind = ComparedKind::kLoss;
  std::string name;  // "step 3", a parameter
  // How far both are apart over the size of what they are compared with; infinite where one has
  // what the other has not.
  double deviation = 0;
  std::vector<int64_t> index;         // of the element that differs most, none for a number
  double a = 0, b = 0;                // its values
  std::vector<int> ranks_a, ranks_b;  // that hold it
  int64_t num_replicas_apart = 0;  // parts of elements that are not the same on all their holders
};

struct KindComparison {
  ComparedKind kind = ComparedKind::kLoss;
  int64_t num_compared = 0;
  Difference largest;
};

struct LayoutComparison {
  double tolerance = 0;
  std::vector<KindComparison> kinds;  // those that were compared
  std::optional<Difference> first;    // beyond the tolerance; none: the layouts train the same
};

// What rounding leaves between layouts that add the same numbers up in another order. fp32 rounds
// to 6e-8, sums of thousands of terms to some hundred times that; 16-bit activations round by 2^-9
// (bf16) or 2^-12 (fp16) at every layer.
double DefaultTolerance(spec::Precision precision);

// Numbers: |a / b - 1|. Tensors: the largest difference of an element over the largest element of
// `a`, and the root mean square of all differences over that of all elements, whichever is more:
// the one finds a single wrong element, the other many that are a little off. A tensor that is
// small but for rounding (the gradient of a key's bias) is held against the size of all tensors of
// its kind.
//
// AdamW divides a gradient by its own size: where that is rounding alone, whole updates differ. So
// the difference of a weight is held against its tensor's size and how far AdamW moves it when its
// gradient is off by the size of the gradients around it, and a single weight counts only beyond
// twice the sum of all learning rates. Second moments are squares, and weights
// are moved by the quotient of two moments: both may differ by twice the tolerance.
LayoutComparison CompareTrainings(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                                  const TrainedModel& a, const TrainedModel& b, double tolerance);

// Runs both trainings one after the other, all ranks as threads of this process, and compares them.
// Throws base::ConfigError where the plans are not of the same model and training, or a launcher
// has started this process as one rank of several; base::SystemError where `stop` ended one early.
LayoutComparison CompareLayouts(const TrainOptions& a, const TrainOptions& b, double tolerance,
                                const TrainCallbacks& callbacks, const std::atomic<bool>& stop);

}  // namespace tessera::engine
