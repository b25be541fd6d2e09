#include "engine/comm/process_groups.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/op_recorder.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::OpKind;
using base::OpRecord;
using base::ReduceOp;
using testing::RunRanks;

struct Sizes {
  int tensor = 1;
  int data = 1;
  int pipeline = 1;
  int context = 1;
};

spec::ParallelSpec MakeParallel(const Sizes& sizes) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = sizes.tensor;
  parallel.data_parallel_size = sizes.data;
  parallel.pipeline_parallel_size = sizes.pipeline;
  parallel.context_parallel_size = sizes.context;
  return parallel;
}

std::vector<int> MembersOf(Communicator& group, int world_rank) {
  std::vector<int> members(group.size());
  group.AllGather(&world_rank, members.data(), 1, DType::kInt32);
  return members;
}

TEST(ProcessGroupsTest, GroupsHoldTheRanksOfTheLayout) {
  // tp fastest, then dp, then pp: rank = tensor + 2 * data + 4 * pipeline.
  const auto parallel = MakeParallel({.tensor = 2, .data = 2, .pipeline = 2});
  RunRanks(8, [&](Communicator& world) {
    const int rank = world.rank();
    const ProcessGroups groups(world, parallel, 4);
    const int t = rank % 2;
    const int d = rank / 2 % 2;
    const int p = rank / 4;
    EXPECT_EQ(groups.coord, (spec::RankCoord{.tensor = t, .data = d, .pipeline = p}));
    EXPECT_EQ(MembersOf(*groups.tensor, rank), (std::vector<int>{rank - t, rank - t + 1}));
    EXPECT_EQ(MembersOf(*groups.gradient, rank),
              (std::vector<int>{rank - 2 * d, rank - 2 * d + 2}));
    EXPECT_EQ(MembersOf(*groups.pipeline, rank),
              (std::vector<int>{rank - 4 * p, rank - 4 * p + 4}));
    EXPECT_EQ(MembersOf(*groups.embedding, rank), MembersOf(*groups.pipeline, rank));
    EXPECT_EQ(MembersOf(*groups.model, rank),
              (std::vector<int>{2 * d, 2 * d + 1, 2 * d + 4, 2 * d + 5}));
    EXPECT_EQ(MembersOf(*groups.kv_replica, rank), std::vector<int>{rank});
    EXPECT_EQ(MembersOf(*groups.context, rank), std::vector<int>{rank});
    if (rank == 6) {
      EXPECT_EQ(groups.tensor->name(), "tp{6,7}");
      EXPECT_EQ(groups.pipeline->name(), "pp{2,6}");
    }
  });
}

// tp fastest, then cp, then dp. All of one tensor rank hold the same parameters.
TEST(ProcessGroupsTest, ContextRanksShareSequencesAndGradients) {
  const auto parallel = MakeParallel({.tensor = 2, .data = 2, .context = 2});
  RunRanks(8, [&](Communicator& world) {
    const ProcessGroups groups(world, parallel, 4);
    const int t = world.rank() % 2;
    const int d = world.rank() / 4;
    EXPECT_EQ(groups.coord.context, world.rank() / 2 % 2);
    EXPECT_EQ(MembersOf(*groups.context, world.rank()),
              (std::vector<int>{4 * d + t, 4 * d + t + 2}));
    EXPECT_EQ(MembersOf(*groups.gradient, world.rank()),
              (std::vector<int>{t, t + 2, t + 4, t + 6}));
  });
}

TEST(ProcessGroupsTest, TensorRanksThatShareKeyValueHeadsFormAGroup) {
  const auto parallel = MakeParallel({.tensor = 4});
  RunRanks(4, [&](Communicator& world) {
    // Two heads on four ranks: ranks 0 and 1 hold the first, 2 and 3 the second.
    const ProcessGroups groups(world, parallel, 2);
    const int first = world.rank() / 2 * 2;
    EXPECT_EQ(MembersOf(*groups.kv_replica, world.rank()), (std::vector<int>{first, first + 1}));
  });
}

TEST(ProcessGroupsTest, AWorldOfAnotherSizeIsRefused) {
  const auto parallel = MakeParallel({.tensor = 4});
  EXPECT_THROW(RunRanks(2, [&](Communicator& world) { ProcessGroups(world, parallel, 4); }),
               base::ConfigError);
}

TEST(ProcessGroupsTest, TheObserverIsToldTheAxisOfEachGroup) {
  const auto parallel = MakeParallel({.tensor = 2, .data = 2});
  RunRanks(4, [&](Communicator& world) {
    ProcessGroups groups(world, parallel, 2);
    OpRecorder recorder;
    groups.set_observer(&recorder);
    groups.tensor->Barrier();
    groups.gradient->Barrier();
    groups.pipeline->Barrier();  // one rank: not reported
    world.Barrier();
    groups.set_observer(nullptr);
    const std::vector<OpRecord> expected = {
        {OpKind::kBarrier, {2, static_cast<int>(spec::Axis::kTensor)}},
        {OpKind::kBarrier, {2, static_cast<int>(spec::Axis::kGradient)}},
        {OpKind::kBarrier, {4, static_cast<int>(spec::Axis::kWorld)}},
    };
    EXPECT_EQ(recorder.records, expected);
  });
}

}  // namespace
}  // namespace tessera::engine
