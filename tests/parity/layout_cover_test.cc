// Every layout trains as one rank does: losses, gradients, norms, weights, over an all-pairs cover
// of models and layouts.
#include "tests/testing/layout_cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <list>

#include "cost_model/base/check.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

// fp32 rounds to 6e-8, and the sums of these models have some hundred terms of either sign, added
// in another order by every layout: 2e-5 is what that leaves of a number of their size, and far
// below what a lost, doubled or misplaced term does.
constexpr double kTolerance = 2e-5;

// The same training on one rank, each sequence a micro-batch, nothing recomputed or sharded.
spec::Plan SerialPlan(spec::Plan plan) {
  plan.parallel = {
      .zero_stage = 0, .attention = spec::AttentionKind::kUnfused, .overlap_grad_reduce = false};
  plan.num_devices = 1;
  return plan;
}

// Trainings on one rank, one a model.
const TrainedModel& SerialTraining(const spec::Plan& plan) {
  struct Known {
    spec::ModelSpec model;
    spec::TrainingSpec training;
    TrainedModel trained;
  };
  static std::list<Known> all;
  for (const Known& known : all) {
    if (known.model == plan.model && known.training == plan.training) return known.trained;
  }
  all.push_back({plan.model, plan.training, TrainOnThreads(SerialPlan(plan))});
  return all.back().trained;
}

struct Deviation {
  double relative = 0;
  std::string of;
  void Raise(double other, const std::string& what) {
    if (!(other > relative)) return;
    relative = other;
    of = what;
  }
};

// Largest and root mean square of values.
struct Size {
  double largest = 0;
  double sum_of_squares = 0;
  int64_t count = 0;
  void Add(double value) {
    largest = std::max(largest, std::abs(value));
    sum_of_squares += value * value;
    ++count;
  }
  double Rms() const { return std::sqrt(sum_of_squares / static_cast<double>(count)); }
};

Size SizeOf(const GlobalTensor& tensor) {
  Size size;
  for (const float value : tensor.values) size.Add(value);
  return size;
}

// Of each parameter the largest difference over its largest element, and the root mean squares of
// both: the one finds a single wrong element, the other many that are a little off. Where a
// parameter has no size of its own (a key bias does not change a softmax: its gradient is rounding)
// `unit` stands in.
Deviation DeviationOf(const GlobalTensors& actual, const GlobalTensors& expected, double unit) {
  Deviation worst;
  for (const auto& [name, reference] : expected) {
    const GlobalTensor& tensor = actual.at(name);
    Size difference;
    for (size_t i = 0; i < reference.values.size(); ++i) {
      difference.Add(static_cast<double>(tensor.values[i]) - reference.values[i]);
    }
    const Size size = SizeOf(reference);
    worst.Raise(difference.largest / std::max(size.largest, unit), name);
    worst.Raise(difference.Rms() / std::max(size.Rms(), unit), name);
  }
  return worst;
}

double RmsOf(const GlobalTensors& tensors) {
  Size all;
  for (const auto& [name, tensor] : tensors) {
    for (const float value : tensor.values) all.Add(value);
  }
  return all.Rms();
}

Deviation DeviationOf(const std::vector<double>& actual, const std::vector<double>& expected) {
  Deviation worst;
  for (size_t step = 0; step < expected.size(); ++step) {
    worst.Raise(std::abs(actual.at(step) / expected[step] - 1), base::Concat("step ", step + 1));
  }
  return worst;
}

// Same parameters, every element somewhere, and with the same bits wherever it is.
void ExpectWhole(const GlobalTensors& actual, const GlobalTensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, reference] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const GlobalTensor& tensor = actual.at(name);
    ASSERT_EQ(tensor.values.size(), reference.values.size()) << name;
    EXPECT_EQ(std::count(tensor.is_held.begin(), tensor.is_held.end(), false), 0) << name;
    EXPECT_EQ(tensor.num_holders_that_differ, 0) << name;
  }
}

void ExpectClose(const Deviation& deviation, const char* what, std::string& row) {
  EXPECT_LE(deviation.relative, kTolerance) << what << " of " << deviation.of;
  char text[64];
  std::snprintf(text, sizeof(text), " %8.1e", deviation.relative);
  row += text;
}

std::string RowName(const ::testing::TestParamInfo<CoverTraining>& info) {
  const spec::ParallelSpec& parallel = info.param.plan.parallel;
  return base::Concat("Row", info.index, "_tp", parallel.tensor_parallel_size, "_pp",
                      parallel.pipeline_parallel_size, "_dp", parallel.data_parallel_size, "_cp",
                      parallel.context_parallel_size, "_ep", parallel.expert_parallel_size);
}

class LayoutCoverTest : public ::testing::TestWithParam<CoverTraining> {};

TEST_P(LayoutCoverTest, TrainsAsOneRankDoes) {
  SCOPED_TRACE(GetParam().name);
  const spec::Plan& plan = GetParam().plan;
  const TrainedModel& expected = SerialTraining(plan);
  const TrainedModel actual = TrainOnThreads(plan);
  ExpectWhole(actual.first_gradients, expected.first_gradients);
  ExpectWhole(actual.weights, expected.weights);
  if (HasFatalFailure()) return;
  std::string row;
  ExpectClose(DeviationOf(actual.losses, expected.losses), "loss", row);
  ExpectClose(DeviationOf(actual.grad_norms, expected.grad_norms), "gradient norm", row);
  ExpectClose(DeviationOf(actual.first_gradients, expected.first_gradients,
                          RmsOf(expected.first_gradients)),
              "gradient", row);
  // How far AdamW may have moved a weight.
  const double reach = plan.training.optimizer.lr * static_cast<double>(plan.training.steps);
  ExpectClose(DeviationOf(actual.weights, expected.weights, reach), "weight", row);
  if (std::getenv("TESSERA_PRINT_DEVIATIONS") != nullptr) {
    std::printf("loss, norm, gradient, weight:%s  %s\n", row.c_str(), GetParam().name.c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(Cover, LayoutCoverTest, ::testing::ValuesIn(CoverOfLayouts().trainings),
                         RowName);

}  // namespace
}  // namespace tessera::testing
