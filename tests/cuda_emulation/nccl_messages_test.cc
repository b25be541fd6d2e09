// Sends, receives and groups of the NCCL double.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/cuda_emulation/nccl_ranks.h"

namespace tessera::cuda_emulation::testing {
namespace {

TEST(NcclMessagesTest, AGroupExchangesWithBothNeighbours) {
  const int ranks = 4;
  RunCommunicator(ranks, [&](Rank& rank) {
    const int next = (rank.rank() + 1) % ranks, previous = (rank.rank() + ranks - 1) % ranks;
    const DeviceArray<float> mine(std::vector<float>(16, static_cast<float>(rank.rank())));
    const DeviceArray<float> from_next(16), from_previous(16);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ncclSend(mine.data(), 16, ncclFloat32, next, rank.comm(), rank.stream());
    ncclSend(mine.data(), 16, ncclFloat32, previous, rank.comm(), rank.stream());
    ncclRecv(from_next.data(), 16, ncclFloat32, next, rank.comm(), rank.stream());
    ncclRecv(from_previous.data(), 16, ncclFloat32, previous, rank.comm(), rank.stream());
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(from_next.Get(), std::vector<float>(16, static_cast<float>(next)));
    EXPECT_EQ(from_previous.Get(), std::vector<float>(16, static_cast<float>(previous)));
  });
}

TEST(NcclMessagesTest, AllToAllIncludesTheRankItself) {
  const int ranks = 3;
  RunCommunicator(ranks, [&](Rank& rank) {
    std::vector<int32_t> values(ranks);
    for (int to = 0; to < ranks; ++to) values[to] = 10 * rank.rank() + to;
    const DeviceArray<int32_t> send(values), receive(ranks);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < ranks; ++peer) {
      ncclSend(send.data() + peer, 1, ncclInt32, peer, rank.comm(), rank.stream());
      ncclRecv(receive.data() + peer, 1, ncclInt32, peer, rank.comm(), rank.stream());
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    Synchronize(rank.stream());
    const std::vector<int32_t> got = receive.Get();
    for (int from = 0; from < ranks; ++from) EXPECT_EQ(got[from], 10 * from + rank.rank());
  });
}

TEST(NcclMessagesTest, MessagesToAPeerKeepTheirOrder) {
  RunCommunicator(2, [](Rank& rank) {
    const DeviceArray<int32_t> data(std::vector<int32_t>{rank.rank() == 0 ? 1 : -1, 2});
    for (int i = 0; i < 2; ++i) {
      int32_t* const at = data.data() + i;
      const auto result = rank.rank() == 0
                              ? ncclSend(at, 1, ncclInt32, 1, rank.comm(), rank.stream())
                              : ncclRecv(at, 1, ncclInt32, 0, rank.comm(), rank.stream());
      ASSERT_EQ(result, ncclSuccess);
    }
    Synchronize(rank.stream());
    EXPECT_EQ(data.Get(), (std::vector<int32_t>{1, 2}));
  });
}

TEST(NcclMessagesTest, NestedGroupsArePostedAtTheOutermostEnd) {
  RunCommunicator(2, [](Rank& rank) {
    const int peer = 1 - rank.rank();
    const DeviceArray<int32_t> send(std::vector<int32_t>{rank.rank()}), receive(1);
    ncclGroupStart();
    ncclGroupStart();
    ncclSend(send.data(), 1, ncclInt32, peer, rank.comm(), rank.stream());
    ncclGroupEnd();
    ncclRecv(receive.data(), 1, ncclInt32, peer, rank.comm(), rank.stream());
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(receive.Get()[0], peer);
  });
}

TEST(NcclMessagesTest, AGroupMayHoldCollectivesToo) {
  RunCommunicator(2, [](Rank& rank) {
    const int peer = 1 - rank.rank();
    const DeviceArray<int32_t> send(std::vector<int32_t>{rank.rank()}), receive(1);
    const DeviceArray<int32_t> sum(std::vector<int32_t>{5 + rank.rank()});
    ncclGroupStart();
    ncclSend(send.data(), 1, ncclInt32, peer, rank.comm(), rank.stream());
    ncclAllReduce(sum.data(), sum.data(), 1, ncclInt32, ncclSum, rank.comm(), rank.stream());
    ncclRecv(receive.data(), 1, ncclInt32, peer, rank.comm(), rank.stream());
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(receive.Get()[0], peer);
    EXPECT_EQ(sum.Get()[0], 11);
  });
}

TEST(NcclMessagesTest, ACapturedExchangeIsReplayed) {
  RunCommunicator(2, [](Rank& rank) {
    const DeviceArray<float> value(std::vector<float>{1});
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(rank.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(value.data(), value.data(), 1, ncclFloat32, ncclSum, rank.comm(),
                            rank.stream()),
              ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(rank.stream(), &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(cudaGraphLaunch(executable, rank.stream()), cudaSuccess);
    }
    Synchronize(rank.stream());
    EXPECT_EQ(value.Get()[0], 8);  // doubled three times
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  });
}

}  // namespace
}  // namespace tessera::cuda_emulation::testing
