// Collectives in graphs: launched again and again, and holding their communicators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cuda_emulation/nccl_ranks.h"

namespace tessera::cuda_emulation::testing {
namespace {

// An all-reduce of `memory` as a graph.
cudaGraphExec_t Capture(const Rank& rank, const DeviceArray<float>& memory) {
  Expect(cudaStreamBeginCapture(rank.stream(), cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(ncclAllReduce(memory.data(), memory.data(), memory.size(), ncclFloat32, ncclSum,
                          rank.comm(), rank.stream()),
            ncclSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Expect(cudaStreamEndCapture(rank.stream(), &graph));
  Expect(cudaGraphInstantiate(&executable, graph, 0));
  Expect(cudaGraphDestroy(graph));
  return executable;
}

TEST(NcclGraphTest, CapturedCollectivesMeetAtEveryLaunch) {
  for (const StreamOrder order : {StreamOrder::kEager, StreamOrder::kAdversarial}) {
    const Scope scope = WithStreamOrder(order);
    RunCommunicator(2, [](Rank& rank) {
      const DeviceArray<float> memory(std::vector<float>(8, 1));
      const cudaGraphExec_t graph = Capture(rank, memory);
      EXPECT_EQ(memory.Get(), std::vector<float>(8, 1));
      for (const float expected : {2, 4, 8}) {
        Expect(cudaGraphLaunch(graph, rank.stream()));
        Synchronize(rank.stream());
        EXPECT_EQ(memory.Get(), std::vector<float>(8, expected));
      }
      Expect(cudaGraphExecDestroy(graph));
      EXPECT_EQ(ncclCommDestroy(rank.ReleaseComm()), ncclSuccess);
    });
  }
}

// As NCCL does: whoever destroys or aborts it waits, so graphs have to go first.
TEST(NcclGraphTest, ACommunicatorStaysUntilItsGraphsAreGone) {
  const Scope impatience = WithNcclTimeout(0.1);
  RunCommunicator(2, [](Rank& rank) {
    const DeviceArray<float> memory(std::vector<float>(8, 1));
    const cudaGraphExec_t graph = Capture(rank, memory);
    const ncclComm_t comm = rank.ReleaseComm();
    EXPECT_EQ(rank.rank() == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm), ncclInternalError);
    EXPECT_THAT(ncclGetLastError(nullptr),
                ::testing::HasSubstr("a graph that uses the communicator still lives"));
    Expect(cudaGraphExecDestroy(graph));
  });
}

}  // namespace
}  // namespace tessera::cuda_emulation::testing
