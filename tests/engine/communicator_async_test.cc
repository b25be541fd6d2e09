// Several collectives under way at once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/testing/comm_backends.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;
using Handles = std::vector<std::unique_ptr<CommHandle>>;

class CommunicatorAsyncTest : public testing::OnEachBackend {};

// Value of element i of rank r in operation `op`: small integers, so that any sum is exact.
float ValueOf(int op, int rank, int64_t i) {
  return static_cast<float>((op * 7 + rank * 3 + i) % 101);
}

float SumOf(int op, int num_ranks, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank) sum += ValueOf(op, rank, i);
  return sum;
}

std::vector<float> InputOf(int op, int rank, int64_t count) {
  std::vector<float> input(count);
  for (int64_t i = 0; i < count; ++i) input[i] = ValueOf(op, rank, i);
  return input;
}

// Sizes on both sides of what one thread does at once.
int64_t CountOf(int op) { return op % 3 == 0 ? 40'000 : 1 + op * 13; }

void ExpectManyAllReduces(testing::CommBackend backend, int num_ranks, int num_ops,
                          bool wait_in_order) {
  testing::RunRanks(backend, num_ranks, {}, [&](Communicator& world) {
    std::vector<std::vector<float>> data;
    Handles handles;
    for (int op = 0; op < num_ops; ++op) {
      data.push_back(InputOf(op, world.rank(), CountOf(op)));
      handles.push_back(world.AllReduceAsync(data.back().data(), data.back().data(), CountOf(op),
                                             DType::kFloat32, ReduceOp::kSum));
    }
    for (int k = 0; k < num_ops; ++k) {
      const int op = wait_in_order ? k : num_ops - 1 - k;
      handles[op]->Wait();
      for (int64_t i = 0; i < CountOf(op); ++i) {
        ASSERT_EQ(data[op][i], SumOf(op, num_ranks, i)) << "operation " << op << " element " << i;
      }
    }
  });
}

TEST_P(CommunicatorAsyncTest, OutstandingOperationsCompleteInOrderOfPosting) {
  for (const int num_ranks : {1, 2, 3, 8}) ExpectManyAllReduces(GetParam(), num_ranks, 20, true);
}

TEST_P(CommunicatorAsyncTest, HandlesMayBeWaitedForInAnyOrder) {
  for (const int num_ranks : {2, 4}) ExpectManyAllReduces(GetParam(), num_ranks, 20, false);
}

TEST_P(CommunicatorAsyncTest, MoreOperationsThanTheGroupCanHoldAreAccepted) {
  ExpectManyAllReduces(GetParam(), 3, 300, true);
}

TEST_P(CommunicatorAsyncTest, DifferentKindsAndGroupsInterleave) {
  constexpr int kNumRanks = 4;
  constexpr int64_t kCount = 30'000;
  RunRanks(kNumRanks, [](Communicator& world) {
    const int rank = world.rank();
    const auto pair = world.Split(rank / 2, rank, rank < 2 ? "pair{0,1}" : "pair{2,3}");
    for (int round = 0; round < 20; ++round) {
      std::vector<float> full = InputOf(round, rank, kNumRanks * kCount);
      std::vector<float> part(kCount);
      std::vector<float> local = InputOf(round + 1, rank, kCount);
      std::vector<float> gathered(2 * kCount);
      const auto scatter = world.ReduceScatterAsync(full.data(), part.data(), kCount,
                                                    DType::kFloat32, ReduceOp::kSum);
      const auto gather =
          pair->AllGatherAsync(local.data(), gathered.data(), kCount, DType::kFloat32);
      world.Barrier();
      gather->Wait();
      scatter->Wait();
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(part[i], SumOf(round, kNumRanks, rank * kCount + i)) << round;
        ASSERT_EQ(gathered[i], ValueOf(round + 1, rank / 2 * 2, i)) << round;
        ASSERT_EQ(gathered[kCount + i], ValueOf(round + 1, rank / 2 * 2 + 1, i)) << round;
      }
    }
  });
}

TEST_P(CommunicatorAsyncTest, AWaitNeedsNoHelpFromAPeerThatHasPostedAndIsBusy) {
  constexpr int64_t kCount = 1'000'000;
  std::atomic<bool> rank_0_is_done{false};
  RunRanks(2, [&](Communicator& world) {
    std::vector<float> data(kCount, 1.0f);
    const auto handle =
        world.AllReduceAsync(data.data(), data.data(), kCount, DType::kFloat32, ReduceOp::kSum);
    if (world.rank() == 0) {
      handle->Wait();
      rank_0_is_done = true;
    } else {
      // Would last for ever if rank 0 needed this rank to wait as well.
      while (!rank_0_is_done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      handle->Wait();
    }
    EXPECT_EQ(std::accumulate(data.begin(), data.end(), 0.0), 2.0 * kCount);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorAsyncTest,
                         ::testing::ValuesIn(testing::CommBackends()), testing::NameOfBackend);

}  // namespace
}  // namespace tessera::engine
