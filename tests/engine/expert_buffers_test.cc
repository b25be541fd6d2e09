// Gradients, norm and updated weights of a model with experts: each buffer over its own ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "engine/optimizer/adamw_optimizer.h"
#include "engine/optimizer/gradient_reduction.h"
#include "engine/optimizer/parameter_gathering.h"
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
std::vector<spec::ParallelSpec> ExpertLayouts() {
  return {WithExperts(Layout(1, 1, 4), 2, 0),       WithExperts(Layout(1, 1, 4, 1, 0), 4, 0),
          WithExperts(Layout(2, 1, 2, 1, 0), 2, 1), WithExperts(Layout(2, 1, 2), 2, 1),
          WithExperts(Layout(2, 1, 1), 1, 1),       WithExperts(Layout(2, 1, 2), 2, 2)};
}

// A rank without layers.
struct ExpertRank {
  ExpertRank(Communicator& world, const spec::ParallelSpec& layout)
      : parallel(layout),
        backend(kernels::MakeCpuBackend(1)),
        pool(*backend),
        groups(world, layout, model.num_key_value_heads),
        tensor_comm(*backend),
        context_comm(*backend),
        expert_comm(*backend),
        waits(*backend),
        context{.backend = *backend,
                .pool = pool,
                .groups = groups,
                .model = model,
                .parallel = parallel,
                .types = spec::TypesOf(training.precision),
                .shape = spec::MakeLocalShape(model, training, parallel),
                .loss = loss,
                .tensor_comm = tensor_comm,
                .context_comm = context_comm,
                .expert_comm = expert_comm,
                .part = part,
                .dropout = dropout,
                .documents = documents},
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
  SpanLog context_comm;
  SpanLog expert_comm;
  SpanLog waits;
  LossTarget loss;
  BackwardPart part;
  DropoutState dropout;
  DocumentState documents;
  LayerContext context;
  ParameterStore store;
};

// Small whole numbers: sums of them are exact in any order.
float GradientOf(int world_rank) { return static_cast<float>(1 << world_rank); }

TEST(ExpertBuffersTest, GradientsAddUpOverTheHoldersOfTheSameParameters) {
  for (const spec::ParallelSpec& layout : ExpertLayouts()) {
    testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
      ExpertRank rank(world, layout);
      rank.backend->Fill(rank.store.gradients(), rank.store.layout().num_elements,
                         GradientOf(world.rank()));
      GradientReducer reducer(rank.context, rank.store, rank.waits, /*overlaps=*/false);
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
  for (const spec::ParallelSpec& layout : ExpertLayouts()) {
    double sum = 0;
    std::mutex mutex;
    testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
      ExpertRank rank(world, layout);
      rank.backend->Fill(rank.store.gradients(), rank.store.layout().num_elements, 0);
      // Ones in what the model has, zeros in what the vocabulary is padded with.
      for (size_t i = 0; i < rank.store.parameters().size(); ++i) {
        const spec::LocalSlice& slice = rank.store.slices()[i];
        for (int64_t j = 0; j < slice.num_elements; ++j) {
          if (test::GlobalIndex(rank.store.parameters()[i], slice, j) < 0) continue;
          rank.store.gradients().As<float>()[rank.store.layout().parameters[i].offset + j] = 1;
        }
      }
      const AdamWOptimizer optimizer(rank.context, rank.store, {});
      double own = 0;
      optimizer.AddSquaredNorm(&own);
      const std::lock_guard lock(mutex);
      sum += own;
    });
    EXPECT_EQ(sum, static_cast<double>(spec::NumParameters(model))) << LayoutText(layout);
  }
}

TEST(ExpertBuffersTest, EveryHolderGetsTheWeightsThatOthersUpdated) {
  for (const spec::ParallelSpec& layout : ExpertLayouts()) {
    if (layout.zero_stage == 0) continue;
    testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
      ExpertRank rank(world, layout);
      std::vector<float> whole(static_cast<size_t>(rank.store.layout().num_elements));
      rank.store.DrawInitialWeights(7, whole.data());
      rank.backend->Fill(rank.store.weights(), rank.store.layout().num_elements, -1);
      for (const spec::OwnedRange& range : rank.store.owned()) {
        std::copy_n(whole.begin() + range.offset, range.num_elements,
                    rank.store.weights().As<float>() + range.offset);
      }
      ParameterGatherer(rank.context, rank.store, rank.waits).AfterUpdate(/*is_last=*/true);
      const float* const weights = rank.store.weights().As<float>();
      EXPECT_TRUE(std::equal(whole.begin(), whole.end(), weights)) << LayoutText(layout);
    });
  }
}

// One micro-batch through all parts, forward and backward, as a pass does it.
template <typename Visit>
void VisitParts(const ExpertRank& rank, const Visit& visit) {
  std::vector<int> parts = {spec::kEmbeddingPart};
  for (int layer = 0; layer < rank.model.num_layers; ++layer) parts.push_back(layer);
  parts.push_back(spec::kHeadPart);
  for (const int part : parts) visit(part);
}

// Names of a part's parameters on this rank.
std::vector<std::string> NamesIn(const ExpertRank& rank, int part) {
  std::vector<std::string> names;
  for (const spec::ParameterSpec& parameter : rank.store.parameters()) {
    if (parameter.layer == part) names.push_back(parameter.name);
  }
  return names;
}

TEST(ExpertBuffersTest, PartsAreWholeWhereTheyAreUsed) {
  for (spec::ParallelSpec layout : ExpertLayouts()) {
    layout.zero_stage = 3;
    testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
      ExpertRank rank(world, layout);
      std::vector<float> owned(static_cast<size_t>(rank.store.num_weights()));
      rank.store.DrawInitialWeights(7, owned.data());
      rank.backend->CopyToDevice(rank.store.weights().data, owned.data(), owned.size() * 4);
      spec::ParallelSpec unsharded = layout;
      unsharded.zero_stage = 0;
      ExpertRank whole(world, unsharded);
      whole.store.DrawInitialWeights(7, whole.store.weights().As<float>());
      ParameterGatherer gatherer(rank.context, rank.store, rank.waits);
      VisitParts(rank, [&](int part) {
        gatherer.BeforeForward(part);
        for (const std::string& name : NamesIn(rank, part)) {
          size_t index = 0;
          while (rank.store.parameters()[index].name != name) ++index;
          const int64_t n = rank.store.slices()[index].num_elements;
          const float* const got = rank.store.Get(name).weight.As<float>();
          EXPECT_TRUE(std::equal(got, got + n, whole.store.Get(name).weight.As<float>()))
              << name << ", " << LayoutText(layout);
        }
      });
    });
  }
}

// Two micro-batches of ones: each owner has twice the number of holders.
TEST(ExpertBuffersTest, ShardsCollectTheGradientsOfEveryMicrobatch) {
  for (spec::ParallelSpec layout : ExpertLayouts()) {
    layout.zero_stage = 2;
    for (const bool overlaps : {false, true}) {
      layout.overlap_grad_reduce = overlaps;
      testing::RunRanks(spec::WorldSize(layout), [&](Communicator& world) {
        ExpertRank rank(world, layout);
        rank.backend->Fill(rank.store.gradients(), rank.store.num_gradients(), 0);
        GradientReducer reducer(rank.context, rank.store, rank.waits, overlaps);
        for (int microbatch = 0; microbatch < 2; ++microbatch) {
          VisitParts(rank, [&](int part) {
            reducer.BeforeBackward(part);
            for (const std::string& name : NamesIn(rank, part)) {
              size_t index = 0;
              while (rank.store.parameters()[index].name != name) ++index;
              const int64_t n = rank.store.slices()[index].num_elements;
              float* const gradients = rank.store.Get(name).grad.As<float>();
              for (int64_t i = 0; i < n; ++i) gradients[i] += 1;
            }
            reducer.AfterBackward(part);
          });
        }
        reducer.Finish();
        for (size_t i = 0; i < rank.store.parameters().size(); ++i) {
          const spec::FlatParameter& place = rank.store.layout().parameters[i];
          for (const spec::OwnedRange& range : rank.store.owned()) {
            const auto axis = range.is_expert ? spec::Axis::kExpertData : spec::Axis::kGradient;
            const auto expected =
                static_cast<float>(2 * rank.groups.layout.GroupOf(world.rank(), axis).size());
            const int64_t begin = std::max(range.offset, place.offset);
            const int64_t end =
                std::min(range.offset + range.num_elements, place.offset + place.num_elements);
            for (int64_t element = begin; element < end; ++element) {
              ASSERT_EQ(*rank.store.OwnGradients(range, element - range.offset).As<float>(),
                        expected)
                  << rank.store.parameters()[i].name << ", " << LayoutText(layout);
            }
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace tessera::engine
