// What ranks do together and what comes of it when one of them fails.
#include "engine/checkpoint/collective_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "cost_model/base/error.h"
#include "tests/testing/comm_backends.h"

namespace tessera::engine {
namespace {

using ::testing::HasSubstr;

class CollectiveWorkTest : public testing::OnEachBackend {};

TEST_P(CollectiveWorkTest, EveryRankHasTheErrorOfTheOneThatFailedThoughTheFirstEndsTheRun) {
  // Each round another rank may be the first to go.
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> num_told{0};
    RunRanks(4, [&](Communicator& world) {
      try {
        RunOnAllRanks(world, "saving", [&] {
          if (world.rank() == 3) throw base::SystemError("the disk is full");
        });
      } catch (const base::SystemError& error) {
        EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
        ++num_told;
        world.Abort(error.what());
      } catch (const base::CommError& error) {
        ADD_FAILURE() << "round " << round << ", rank " << world.rank() << ": " << error.what();
      }
    });
    EXPECT_EQ(num_told, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CollectiveWorkTest, ::testing::ValuesIn(testing::CommBackends()),
                         testing::NameOfBackend);

}  // namespace
}  // namespace tessera::engine
