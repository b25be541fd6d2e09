// Gradients, norm and updated weights of a model with experts: each buffer over its own ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "engine/optimizer/adamw_optimizer.h"
#include "engine/optimizer/gradient_reduction.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using test::Layout;
using test::LayoutText;
using test::TinyMixture;

spec::ParallelSpec WithExperts(spec::ParallelSpec layout, int expert, int expert_tensor) {
  layout.expert_parallel_size = expert;
  layout.expert_tensor_parallel_size = expert_tensor;
  return layout;
}

// Experts over some data ranks, over all of them, over tensor and data ranks, split or whole.
std::vector<spec::ParallelSpec> Layouts() {
  return {WithExperts(Layout(1, 1, 4), 2, 0),       WithExperts(Layout(1, 1, 4, 1, 0), 4, 0),
          WithExperts(Layout(2, 1, 2, 1, 0), 2, 1), WithExperts(Layout(2, 1, 2), 2, 1),
          WithExperts(Layout(2, 1, 1), 1, 1),       WithExperts(Layout(2, 1, 2), 2, 2)};
}

// A rank without layers.
struct Rank {
  Rank(Communicator& world, const spec::ParallelSpec& layout)
      : parallel(layout),
        backend(kernels::MakeCpuBackend(1)),
        pool(*backend),
        groups(world, layout, model.num_key_value_heads),
        tensor_comm(*backend),
        context{.backend = *backend,
                .pool = pool,
                .groups = groups,
                .model = model,
                .parallel = parallel,
                .types = spec::TypesOf(training.precision),
                .shape = spec::MakeLocalShape(model, training, parallel),
                .loss = loss,
                .tensor_comm = tensor_comm},
        store(spec::StagesOf(spec::PartitionStages(model, layout), groups.coord.pipeline), model,
              layout, context.types, groups, pool) {}

  // Every element of a parameter; padding and gaps stay.
  template <typename Visit>  // visit(parameter, elements, number of elements)
  void ForEachParameter(const kernels::Array& buffer, const Visit& visit) {
    for (size_t i = 0; i < store.parameters().size(); ++i) {
      const spec::FlatParameter& flat = store.layout().parameters[i];
      visit(store.parameters()[i], buffer.As<float>() + flat.offset, flat.num_elements);
    }
  }

  const spec::ModelSpec model = TinyMixture();
  const spec::TrainingSpec training{
      .global_batch_size = 4, .sequence_length = 8, .precision = spec::Precision::kFp32};
  const spec::ParallelSpec parallel;
  std::unique_ptr<kernels::Backend> backend;
  MemoryPool pool;
  ProcessGroups groups;
  SpanLog tensor_comm;
  LossTarget loss;
  LayerContext context;
  ParameterStore store;
};

// Small whole numbers: sums of them are exact in any order.
float GradientOf(int world_rank) { return static_cast<float>(1 << world_rank); }

TEST(ExpertBuffersTest, GradientsAddUpOverTheHoldersOfTheSameParameters) {
  for (const spec::ParallelSpec& layout : Layouts()) {
    testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
      Rank rank(world, layout);
      rank.backend->Fill(rank.store.gradients(), rank.store.layout().num_elements,
                         GradientOf(world.rank()));
      GradientReducer reducer(rank.context, rank.store);
      reducer.Finish();
      for (const spec::OwnedRange& range : rank.store.owned()) {
        const spec::Axis axis = range.is_expert ? spec::Axis::kExpertData : spec::Axis::kGradient;
        float sum = 0;
        for (const int holder : rank.groups.layout.GroupOf(world.rank(), axis)) {
          sum += GradientOf(holder);
        }
        // Shared key/value heads do not add here: two heads, two tensor ranks at most.
        const float* const gradients = rank.store.gradients().As<float>() + range.offset;
        for (int64_t i = 0; i < range.num_elements; ++i) {
          ASSERT_EQ(gradients[i], sum) << LayoutText(layout) << ", expert " << range.is_expert;
        }
      }
    });
  }
}

TEST(ExpertBuffersTest, TheNormCountsEachParameterOnce) {
  const spec::ModelSpec model = TinyMixture();
  for (const spec::ParallelSpec& layout : Layouts()) {
    double sum = 0;
    std::mutex mutex;
    testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
      Rank rank(world, layout);
      rank.backend->Fill(rank.store.gradients(), rank.store.layout().num_elements, 0);
      // Ones in what the model has, zeros in what the vocabulary is padded with.
      for (size_t i = 0; i < rank.store.parameters().size(); ++i) {
        const spec::LocalSlice& slice = rank.store.slices()[i];
        for (int64_t j = 0; j < slice.num_elements; ++j) {
          if (test::GlobalIndex(rank.store.parameters()[i], slice, j) < 0) continue;
          rank.store.gradients().As<float>()[rank.store.layout().parameters[i].offset + j] = 1;
        }
      }
      const AdamWOptimizer optimizer(rank.context, rank.store);
      double own = 0;
      optimizer.AddSquaredNorm(&own);
      const std::lock_guard lock(mutex);
      sum += own;
    });
    EXPECT_EQ(sum, static_cast<double>(spec::NumParameters(model))) << LayoutText(layout);
  }
}

TEST(ExpertBuffersTest, EveryHolderGetsTheWeightsThatOthersUpdated) {
  for (const spec::ParallelSpec& layout : Layouts()) {
    if (layout.zero_stage == 0) continue;
    testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
      Rank rank(world, layout);
      std::vector<float> whole(static_cast<size_t>(rank.store.layout().num_elements));
      rank.store.DrawInitialWeights(7, whole.data());
      rank.backend->Fill(rank.store.weights(), rank.store.layout().num_elements, -1);
      for (const spec::OwnedRange& range : rank.store.owned()) {
        std::copy_n(whole.begin() + range.offset, range.num_elements,
                    rank.store.weights().As<float>() + range.offset);
      }
      GatherWeights(rank.context, rank.store);
      const float* const weights = rank.store.weights().As<float>();
      EXPECT_TRUE(std::equal(whole.begin(), whole.end(), weights)) << LayoutText(layout);
    });
  }
}

}  // namespace
}  // namespace tessera::engine
