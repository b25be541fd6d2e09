// Which choices of model and layout meet in the cover, and why others do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/testing/cover_axes.h"
#include "tests/testing/layout_cover.h"

namespace tessera::testing {
namespace {

// No rule of the layout allows these; else one of the two would change nothing.
const std::set<std::string> kForbidden = {
    // All-to-all context parallelism gives each of tp * cp ranks whole heads, of 8 and of key/value
    // heads.
    "kv-heads=1 with context=2-all-to-all", "kv-heads=1 with context=4-all-to-all",
    "tensor=4 with context=4-all-to-all",
    // A ring merges partial outputs by a log-sum-exp that unfused attention does not keep.
    "context=2-ring with flash=no", "context=4-ring with flash=no",
    // Without experts nothing to place on ranks; tensor ranks route tokens of their own alone,
    // which they have under sequence parallelism.
    "experts=none with expert=2", "experts=none with expert=4",
    "experts=none with whole-experts=yes", "tensor=1 with whole-experts=yes",
    "whole-experts=yes with sequence=no", "experts=alike with scatter-gather=yes",
    "experts=balanced with scatter-gather=yes", "experts=filled-up with scatter-gather=yes",
    "experts=and-shared with scatter-gather=yes", "expert=2 with scatter-gather=yes",
    "expert=4 with scatter-gather=yes", "whole-experts=yes with scatter-gather=yes",
    // One tensor rank, one stage, state that is not sharded or not gathered after the update.
    "tensor=1 with sequence=yes", "tensor=1 with overlap-tp=yes",
    "tensor=1 with scatter-gather=yes", "pipeline=1 with schedule=interleaved",
    "pipeline=1 with schedule=interleaved-in-fours", "pipeline=1 with uneven=yes",
    "pipeline=1 with overlap-pp=yes", "pipeline=1 with scatter-gather=yes",
    "zero=0 with hybrid=yes", "zero=0 with overlap-param=yes", "zero=3 with overlap-param=yes",
    // Sequence parallelism sends shares of a transfer already.
    "sequence=yes with scatter-gather=yes",
    // Interleaving takes micro-batches in rounds of pp, or of four.
    "microbatches=1 with schedule=interleaved", "microbatches=1 with schedule=interleaved-in-fours",
    "microbatches=2 with schedule=interleaved-in-fours"};

// Planned, but refused by engine::CheckExecutable: weight passes of shared experts, and of
// parameters that are gone once their layer's backward pass has ended.
const std::set<std::string> kNotExecuted = {"experts=and-shared with schedule=zb-h1",
                                            "zero=3 with schedule=zb-h1"};

std::set<std::string> Names(const std::vector<ValuePair>& pairs) {
  std::set<std::string> names;
  for (const ValuePair& pair : pairs) names.insert(ToString(pair));
  return names;
}

std::set<ValuePair> TrainedPairs() {
  std::set<ValuePair> pairs;
  for (const CoverTraining& training : CoverOfLayouts().trainings) {
    const CoverRow& row = training.choices;
    for (int a = 0; a < static_cast<int>(row.size()); ++a) {
      for (int b = a + 1; b < static_cast<int>(row.size()); ++b) {
        pairs.insert({a, row[a], b, row[b]});
      }
    }
  }
  return pairs;
}

std::vector<ValuePair> AllPairsOfChoices() {
  std::vector<int> num_values;
  for (const CoverAxis& axis : CoverAxes()) {
    num_values.push_back(static_cast<int>(axis.values.size()));
  }
  return AllPairs(num_values);
}

TEST(LayoutPairsTest, EveryPairOfChoicesIsTrainedOrHasAReason) {
  const LayoutCover& cover = CoverOfLayouts();
  const std::set<ValuePair> trained = TrainedPairs();
  const std::vector<ValuePair> all = AllPairsOfChoices();
  for (const ValuePair& pair : all) {
    const std::string name = ToString(pair);
    const bool has_reason = kForbidden.contains(name) || kNotExecuted.contains(name);
    EXPECT_NE(trained.contains(pair), has_reason) << name;
  }
  std::printf("%zu pairs of choices: %zu in %zu trainings, %zu forbidden, %zu not executed\n",
              all.size(), trained.size(), cover.trainings.size(), cover.forbidden.size(),
              cover.refused.size());
}

TEST(LayoutPairsTest, OnlyPairsThatCannotBeAreForbidden) {
  EXPECT_EQ(Names(CoverOfLayouts().forbidden), kForbidden);
}

TEST(LayoutPairsTest, TheEngineRefusesNoFurtherPair) {
  EXPECT_EQ(Names(CoverOfLayouts().refused), kNotExecuted);
}

TEST(LayoutPairsTest, TheTrainingsKeepTheRules) {
  for (const CoverTraining& training : CoverOfLayouts().trainings) {
    const spec::Plan& plan = training.plan;
    EXPECT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty())
        << training.name;
    EXPECT_LE(plan.num_devices, 16) << training.name;
    EXPECT_EQ(plan.num_devices, spec::WorldSize(plan.parallel)) << training.name;
  }
}

}  // namespace
}  // namespace tessera::testing
