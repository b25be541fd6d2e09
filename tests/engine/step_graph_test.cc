// When a step's passes are captured, and what is done at every launch.
#include "engine/train/step_graph.h"

#include <gtest/gtest.h>

#include "tests/testing/counting_backend.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

class Kept final : public kernels::OpGraph {};

// Writes down what it is asked for.
class GraphBackend final : public tessera::testing::CountingBackend {
 public:
  bool has_graphs() const override { return true; }
  std::unique_ptr<kernels::OpGraph> Capture(const std::function<void()>& work) override {
    log += "capture(";
    work();
    log += ")";
    return std::make_unique<Kept>();
  }
  void Launch(const kernels::OpGraph& /*graph*/) override { log += "launch"; }

  std::string log;
};

class StepGraphTest : public ::testing::Test {
 protected:
  // What a step with this gradient scale does.
  std::string Step(StepGraph& graph, float grad_scale, StepMarks& marks, int num_microbatches = 1) {
    backend_.log.clear();
    graph.Run({.call =
                   [&](StepMarks& of_passes) {
                     backend_.log += "call";
                     of_passes.tensor_comm.push_back({3, 4});
                   },
               .fill_inputs = [&] { backend_.log += "fill "; },
               .grad_scale = grad_scale,
               .num_microbatches = num_microbatches},
              marks);
    return backend_.log;
  }

  GraphBackend backend_;
};

TEST_F(StepGraphTest, TheFirstStepIsCalledTheSecondCapturedAllFollowingLaunched) {
  tessera::testing::RunRanks(1, [&](Communicator& world) {
    StepGraph graph(backend_, world);
    for (const char* const expected :
         {"call", "capture(call)fill launch", "fill launch", "fill launch"}) {
      StepMarks marks;
      marks.phases.push_back({spec::PhaseKind::kOther, {1, 2}});
      EXPECT_EQ(Step(graph, 1, marks), expected);
      ASSERT_EQ(marks.tensor_comm.size(), 1U) << "marks of the passes, once";
      EXPECT_EQ(marks.phases.size(), 1U) << "and of what was before them";
    }
  });
}

TEST_F(StepGraphTest, AnotherGradientScaleNeedsAnotherGraph) {
  tessera::testing::RunRanks(1, [&](Communicator& world) {
    StepGraph graph(backend_, world);
    StepMarks marks;
    Step(graph, 4, marks);
    EXPECT_EQ(Step(graph, 4, marks), "capture(call)fill launch");
    EXPECT_EQ(Step(graph, 2, marks), "capture(call)fill launch");
    EXPECT_EQ(Step(graph, 2, marks), "fill launch");
    EXPECT_EQ(Step(graph, 2, marks, /*num_microbatches=*/2), "capture(call)fill launch");
  });
}

}  // namespace
}  // namespace tessera::engine
