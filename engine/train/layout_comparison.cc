#include "engine/train/layout_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Largest and root mean square of values.
struct Size {
  double largest = 0;
  double sum_of_squares = 0;
  int64_t count = 0;
  void Add(double value) {
    // What is no number is larger than all.
    const double magnitude = std::isnan(value) ? kInfinity : std::abs(value);
    largest = std::max(largest, magnitude);
    sum_of_squares += magnitude * magnitude;
    ++count;
  }
  double Rms() const {
    return count > 0 ? std::sqrt(sum_of_squares / static_cast<double>(count)) : 0;
  }
};

Size SizeOf(const GlobalTensor& tensor) {
  Size size;
  for (const float value : tensor.values) size.Add(value);
  return size;
}

Size SizeOf(const GlobalTensors& tensors) {
  Size all;
  for (const auto& [name, tensor] : tensors) {
    for (const float value : tensor.values) all.Add(value);
  }
  return all;
}

// 0 / 0 is no difference.
double Ratio(double difference, double unit) { return difference == 0 ? 0 : difference / unit; }

std::vector<int64_t> IndexOf(const std::vector<int64_t>& shape, int64_t element) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = element % shape[d];
    element /= shape[d];
  }
  return index;
}

// What a difference is held against: the tensor's own size, at least `least`, and `beyond(i)` more
// for its element i. A single element may be off by `slack` whatever its size.
template <typename Beyond>
Difference CompareTensor(ComparedKind kind, const std::string& name, const GlobalTensor& a,
                         const GlobalTensor& b, double least, double slack, const Beyond& beyond) {
  Difference found{.kind = kind, .name = name};
  found.num_replicas_apart = a.num_holders_that_differ + b.num_holders_that_differ;
  const Size size = SizeOf(a);
  const double unit = std::max(size.largest, least);
  const double rms_unit = std::max(size.Rms(), least);
  Size relative, relative_rms;
  double most = -1;
  size_t worst = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const bool is_held = a.is_held[i] && b.is_held[i];
    const double difference =
        is_held ? std::abs(static_cast<double>(a.values[i]) - b.values[i]) : kInfinity;
    const double further = beyond(i);
    // What is no number stays none.
    const double beyond_slack = difference <= slack ? 0 : difference - slack;
    relative.Add(Ratio(beyond_slack, unit + further));
    relative_rms.Add(Ratio(difference, rms_unit + further));
    const double deviation = Ratio(difference, unit + further);
    // What is no number counts once.
    if (deviation > most || (std::isnan(deviation) && most < kInfinity)) {
      most = std::isnan(deviation) ? kInfinity : deviation;
      worst = i;
    }
  }
  found.deviation = std::max(relative.largest, relative_rms.Rms());
  if (a.values.empty()) return found;
  const auto element = static_cast<int64_t>(worst);
  found.index = IndexOf(a.shape, element);
  found.a = a.values[worst];
  found.b = b.values[worst];
  found.ranks_a = HoldersOfElement(a, element);
  found.ranks_b = HoldersOfElement(b, element);
  return found;
}

class Comparer {
 public:
  Comparer(const spec::ModelSpec& model, const spec::TrainingSpec& training, const TrainedModel& a,
           const TrainedModel& b, double tolerance)
      : parameters_(spec::ModelParameters(model)), training_(training), a_(a), b_(b) {
    comparison_.tolerance = tolerance;
  }

  LayoutComparison Run() {
    CompareNumber(ComparedKind::kLoss, 0);
    CompareGradients();
    CompareNumber(ComparedKind::kGradientNorm, 0);
    for (size_t step = 1; step < a_.losses.size(); ++step) {
      CompareNumber(ComparedKind::kLoss, step);
      CompareNumber(ComparedKind::kGradientNorm, step);
    }
    CompareWeights();
    CompareMoments(ComparedKind::kFirstMoment, a_.first_moments, b_.first_moments);
    CompareMoments(ComparedKind::kSecondMoment, a_.second_moments, b_.second_moments);
    return std::move(comparison_);
  }

 private:
  void Add(Difference found) {
    auto& kinds = comparison_.kinds;
    auto of_kind = std::find_if(kinds.begin(), kinds.end(), [&](const KindComparison& known) {
      return known.kind == found.kind;
    });
    if (of_kind == kinds.end())
      of_kind = kinds.insert(of_kind, {.kind = found.kind, .largest = {}});
    ++of_kind->num_compared;
    const bool is_twice =
        found.kind == ComparedKind::kSecondMoment || found.kind == ComparedKind::kWeight;
    const double limit = comparison_.tolerance * (is_twice ? 2 : 1);
    const bool is_beyond = !(found.deviation <= limit) || found.num_replicas_apart > 0;
    if (is_beyond && !comparison_.first) comparison_.first = found;
    if (of_kind->num_compared == 1 || found.deviation > of_kind->largest.deviation) {
      of_kind->largest = std::move(found);
    }
  }

  void CompareNumber(ComparedKind kind, size_t step) {
    const bool is_loss = kind == ComparedKind::kLoss;
    const double a = (is_loss ? a_.losses : a_.grad_norms).at(step);
    const double b = (is_loss ? b_.losses : b_.grad_norms).at(step);
    Add({.kind = kind,
         .name = base::Concat("step ", step + 1),
         .deviation = Ratio(std::abs(a - b), std::abs(a)),
         .index = {},
         .a = a,
         .b = b,
         .ranks_a = {},
         .ranks_b = {}});
  }

  // Calls compare(name, a's tensor, b's tensor) where both have one.
  template <typename Compare>
  void CompareEach(ComparedKind kind, const GlobalTensors& a, const GlobalTensors& b,
                   bool is_backward, const Compare& compare) {
    const auto each = [&](const spec::ParameterSpec& parameter) {
      const auto of_a = a.find(parameter.name);
      const auto of_b = b.find(parameter.name);
      if (of_a != a.end() && of_b != b.end()) {
        Add(compare(parameter.name, of_a->second, of_b->second));
      } else {
        Add({.kind = kind,
             .name = parameter.name,
             .deviation = kInfinity,
             .index = {},
             .ranks_a = {},
             .ranks_b = {}});
      }
    };
    if (is_backward) {
      std::for_each(parameters_.rbegin(), parameters_.rend(), each);
    } else {
      std::for_each(parameters_.begin(), parameters_.end(), each);
    }
  }

  void CompareGradients() {
    const double least = SizeOf(a_.first_gradients).Rms();
    CompareEach(ComparedKind::kGradient, a_.first_gradients, b_.first_gradients,
                /*is_backward=*/true,
                [&](const std::string& name, const GlobalTensor& a, const GlobalTensor& b) {
                  return CompareTensor(ComparedKind::kGradient, name, a, b, least, /*slack=*/0,
                                       [](size_t) { return 0.0; });
                });
  }

  void CompareMoments(ComparedKind kind, const GlobalTensors& a, const GlobalTensors& b) {
    const double least = SizeOf(a).Rms();
    CompareEach(kind, a, b, /*is_backward=*/false,
                [&](const std::string& name, const GlobalTensor& of_a, const GlobalTensor& of_b) {
                  return CompareTensor(kind, name, of_a, of_b, least, /*slack=*/0,
                                       [](size_t) { return 0.0; });
                });
  }

  // An update moves a weight by lr * m / (sqrt(v) + epsilon): a gradient that is off by e changes
  // it by up to lr * e / (sqrt(v) + epsilon). Gradients are compared relative to the largest of
  // their tensor, or the size of all: so is e. Where one of the steps found a gradient that is
  // rounding alone, the whole step may go the other way: a single weight may be off by that.
  void CompareWeights() {
    const spec::OptimizerSpec& options = training_.optimizer;
    const auto steps = static_cast<double>(a_.losses.size());
    const double reach = options.lr * steps;
    const double correction = 1 - std::pow(options.adam_beta2, steps);
    double sum = 0;
    int64_t count = 0;
    for (const auto& [name, v] : a_.second_moments) {
      for (const float value : v.values) sum += value;
      count += static_cast<int64_t>(v.values.size());
    }
    const double least =
        std::sqrt(sum / static_cast<double>(std::max<int64_t>(1, count)) / correction);
    CompareEach(ComparedKind::kWeight, a_.weights, b_.weights, /*is_backward=*/false,
                [&](const std::string& name, const GlobalTensor& a, const GlobalTensor& b) {
                  const GlobalTensor& v = a_.second_moments.at(name);
                  const double off = std::max(std::sqrt(SizeOf(v).largest / correction), least);
                  return CompareTensor(ComparedKind::kWeight, name, a, b, /*least=*/0,
                                       /*slack=*/2 * reach, [&](size_t i) {
                                         const double root = std::sqrt(v.values[i] / correction);
                                         return reach * off / (root + options.adam_eps);
                                       });
                });
  }

  const std::vector<spec::ParameterSpec> parameters_;
  const spec::TrainingSpec& training_;
  const TrainedModel& a_;
  const TrainedModel& b_;
  LayoutComparison comparison_;
};

// The training of one layout, of which `name` is the plan.
TrainedModel RunRecorded(const TrainOptions& options, const char* name,
                         const TrainCallbacks& callbacks, const std::atomic<bool>& stop) {
  ModelRecorder recorder;
  TrainCallbacks recorded = callbacks;
  recorded.on_rank_step = [&](RankTrainer& trainer, RankDevice& device, int rank,
                              const StepResult& result) {
    recorder.Record(trainer, device.backend(), rank, result,
                    result.step == options.plan.training.steps);
  };
  const TrainReport report = RunTraining(options, recorded, stop);
  if (report.interrupted) {
    throw base::SystemError(base::Concat("the training of plan ", name, " was interrupted at step ",
                                         report.last_step, ": nothing to compare"));
  }
  return recorder.trained();
}

}  // namespace

std::string_view ToString(ComparedKind kind) {
  switch (kind) {
    case ComparedKind::kLoss:
      return "loss";
    case ComparedKind::kGradient:
      return "gradient";
    case ComparedKind::kGradientNorm:
      return "gradient norm";
    case ComparedKind::kWeight:
      return "weight";
    case ComparedKind::kFirstMoment:
      return "first moment";
    case ComparedKind::kSecondMoment:
      return "second moment";
  }
  base::FailCheck(__FILE__, __LINE__, "known kind", static_cast<int>(kind));
}

double DefaultTolerance(spec::Precision precision) {
  if (precision == spec::Precision::kFp32) return 1e-4;
  return precision == spec::Precision::kFp16 ? 1e-2 : 5e-2;
}

LayoutComparison CompareTrainings(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                                  const TrainedModel& a, const TrainedModel& b, double tolerance) {
  return Comparer(model, training, a, b, tolerance).Run();
}

LayoutComparison CompareLayouts(const TrainOptions& a, const TrainOptions& b, double tolerance,
                                const TrainCallbacks& callbacks, const std::atomic<bool>& stop) {
  if (const auto process = FindProcessRank(ReadEnvironment)) {
    throw base::ConfigError(process->launcher, "", base::Concat(process->num_ranks, " processes"),
                            "one: layouts are compared with all ranks as threads of a process");
  }
  if (a.plan.model != b.plan.model) {
    throw base::ConfigError("--compare-layouts", "/model", "two models", "one in both plans");
  }
  if (a.plan.training != b.plan.training) {
    throw base::ConfigError("--compare-layouts", "/training", "two trainings", "one in both plans");
  }
  const TrainedModel of_a = RunRecorded(a, "A", callbacks, stop);
  const TrainedModel of_b = RunRecorded(b, "B", callbacks, stop);
  return CompareTrainings(a.plan.model, a.plan.training, of_a, of_b, tolerance);
}

}  // namespace tessera::engine
