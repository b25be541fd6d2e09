// Planted faults that the NCCL double must find, and the failures it injects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tests/cuda_emulation/nccl/communicator.h"
#include "tests/cuda_emulation/nccl_ranks.h"
#include "tests/cuda_emulation/runtime/fault.h"

namespace tessera::cuda_emulation::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ncclResult_t AllReduce(const Rank& rank, const DeviceArray<float>& memory, size_t count,
                       ncclDataType_t type = ncclFloat32) {
  return ncclAllReduce(memory.data(), memory.data(), count, type, ncclSum, rank.comm(),
                       rank.stream());
}

// What the stream's Fault says; empty if it throws none.
std::string FaultOf(const Rank& rank) {
  try {
    cudaStreamSynchronize(rank.stream());
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

// Lets the second rank call only after the first: so it is the second that is told at its call.
void InOrder(const Rank& rank, std::atomic<bool>& first_is_done,
             const std::function<void()>& call) {
  while (rank.rank() == 1 && !first_is_done) std::this_thread::yield();
  call();
  if (rank.rank() == 0) first_is_done = true;
}

// Both ranks issue their own calls; the second is refused and the first one's stream fails, both
// with words that match.
template <typename Call>
void ExpectMismatch(Call call, const ::testing::Matcher<std::string>& words) {
  std::atomic<bool> first_is_done = false, second_is_done = false;
  RunCommunicator(2, [&](Rank& rank) {
    const DeviceArray<float> memory(std::vector<float>(16, 1));
    InOrder(rank, first_is_done, [&] {
      const ncclResult_t result = call(rank, memory);
      EXPECT_EQ(result, rank.rank() == 0 ? ncclSuccess : ncclInvalidUsage);
    });
    if (rank.rank() == 1) {
      EXPECT_THAT(rank.LastError(), words);
      second_is_done = true;
    } else {
      while (!second_is_done) std::this_thread::yield();
      EXPECT_THAT(FaultOf(rank), words);
      ncclResult_t error = ncclSuccess;
      EXPECT_EQ(ncclCommGetAsyncError(rank.comm(), &error), ncclSuccess);
      EXPECT_EQ(error, ncclInvalidUsage);
    }
  });
}

TEST(NcclFaultsTest, FindsAMismatchedCount) {
  ExpectMismatch(
      [](Rank& rank, const DeviceArray<float>& memory) {
        return AllReduce(rank, memory, rank.rank() == 0 ? 8 : 9);
      },
      AllOf(HasSubstr("communicator 'world'"), HasSubstr("rank 1 calls ncclAllReduce of 9 fp32"),
            HasSubstr("rank 0 calls ncclAllReduce of 8 fp32"), HasSubstr("count 9 against 8"),
            HasSubstr("collective number 0")));
}

TEST(NcclFaultsTest, FindsAMismatchedType) {
  ExpectMismatch(
      [](Rank& rank, const DeviceArray<float>& memory) {
        return AllReduce(rank, memory, 8, rank.rank() == 0 ? ncclFloat32 : ncclBfloat16);
      },
      HasSubstr("type bf16 against fp32"));
}

TEST(NcclFaultsTest, FindsCollectivesInAnotherOrder) {
  ExpectMismatch(
      [](Rank& rank, const DeviceArray<float>& memory) {
        return rank.rank() == 0 ? AllReduce(rank, memory, 8)
                                : ncclBroadcast(memory.data(), memory.data(), 8, ncclFloat32, 0,
                                                rank.comm(), rank.stream());
      },
      HasSubstr("operation ncclBroadcast against ncclAllReduce"));
}

TEST(NcclFaultsTest, FindsAMismatchedReductionAndRoot) {
  ExpectMismatch(
      [](Rank& rank, const DeviceArray<float>& memory) {
        return ncclAllReduce(memory.data(), memory.data(), 8, ncclFloat32,
                             rank.rank() == 0 ? ncclSum : ncclMax, rank.comm(), rank.stream());
      },
      HasSubstr("reduction max against sum"));
  ExpectMismatch(
      [](Rank& rank, const DeviceArray<float>& memory) {
        return ncclBroadcast(memory.data(), memory.data(), 8, ncclFloat32, rank.rank(), rank.comm(),
                             rank.stream());
      },
      HasSubstr("root 1 against 0"));
}

TEST(NcclFaultsTest, FindsAMessageOfAnotherSize) {
  ExpectMismatch(
      [](Rank& rank, const DeviceArray<float>& memory) {
        return rank.rank() == 0
                   ? ncclSend(memory.data(), 8, ncclFloat32, 1, rank.comm(), rank.stream())
                   : ncclRecv(memory.data(), 4, ncclFloat32, 0, rank.comm(), rank.stream());
      },
      AllOf(HasSubstr("count 4 against 8"), HasSubstr("message number 0 between the two")));
}

TEST(NcclFaultsTest, NamesTheRankThatDoesNotCome) {
  const Scope patience = WithWaitTimeout(0.3);
  std::atomic<int> num_told = 0;
  RunCommunicator(3, [&](Rank& rank) {
    const DeviceArray<float> memory(std::vector<float>(8, 1));
    if (rank.rank() != 1) {
      EXPECT_EQ(AllReduce(rank, memory, 8), ncclSuccess);
      EXPECT_THAT(FaultOf(rank), AllOf(HasSubstr("communicator 'world'"),
                                       HasSubstr("ncclAllReduce"), HasSubstr("waits for rank 1")));
      ++num_told;
    }
    while (num_told < 2) std::this_thread::yield();  // rank 1 stays away, but alive
  });
}

TEST(NcclFaultsTest, FindsAnExchangeThatIsNotGrouped) {
  const Scope patience = WithWaitTimeout(0.3);
  std::atomic<int> num_told = 0;
  RunCommunicator(2, [&](Rank& rank) {
    const int peer = 1 - rank.rank();
    const DeviceArray<float> send(std::vector<float>(8, 1)), receive(8);
    EXPECT_EQ(ncclSend(send.data(), 8, ncclFloat32, peer, rank.comm(), rank.stream()), ncclSuccess);
    EXPECT_EQ(ncclRecv(receive.data(), 8, ncclFloat32, peer, rank.comm(), rank.stream()),
              ncclSuccess);
    EXPECT_THAT(FaultOf(rank),
                AllOf(HasSubstr("ncclSend of 8 fp32 to rank " + std::to_string(peer)),
                      HasSubstr("waits for rank " + std::to_string(peer))));
    ++num_told;
    while (num_told < 2) std::this_thread::yield();  // the peer finds it on its own
  });
}

TEST(NcclFaultsTest, FindsAnExchangeOnTwoStreamsThatIsNotGrouped) {
  // NCCL launches the work of one communicator in its order of issue, whatever the streams.
  const Scope patience = WithWaitTimeout(0.3);
  std::atomic<int> num_told = 0;
  RunCommunicator(2, [&](Rank& rank) {
    const int peer = 1 - rank.rank();
    const TestStream other;
    const DeviceArray<float> send(std::vector<float>(8, 1)), receive(8);
    ncclSend(send.data(), 8, ncclFloat32, peer, rank.comm(), rank.stream());
    ncclRecv(receive.data(), 8, ncclFloat32, peer, rank.comm(), other);
    EXPECT_THAT(FaultOf(rank), HasSubstr("ncclSend of 8 fp32"));
    ++num_told;
    while (num_told < 2) std::this_thread::yield();
  });
}

TEST(NcclFaultsTest, ChecksBuffers) {
  RunCommunicator(1, [](Rank& rank) {
    const DeviceArray<float> memory(std::vector<float>(16, 1));
    float host[16] = {};
    void* const off_by_two = reinterpret_cast<char*>(memory.data()) + 2;
    float* const at = memory.data();
    const auto refused = [&](ncclResult_t result, const std::string& words) {
      EXPECT_EQ(result, ncclInvalidArgument);
      EXPECT_THAT(rank.LastError(), HasSubstr(words));
    };
    const auto reduce = [&](const void* send, void* receive, size_t count) {
      return ncclAllReduce(send, receive, count, ncclFloat32, ncclSum, rank.comm(), rank.stream());
    };
    refused(reduce(host, at, 8), "the send buffer is not inside one device allocation");
    refused(reduce(at, at, 17), "is not inside one device allocation");
    refused(reduce(at, at + 4, 8), "its receive buffer overlaps the send buffer of the same call");
    refused(reduce(off_by_two, off_by_two, 4), "is not aligned to its elements");
    EXPECT_EQ(reduce(at, at + 8, 8), ncclSuccess);
    Synchronize(rank.stream());
  });
}

TEST(NcclFaultsTest, TakesGathersAndScattersInPlaceAtTheRanksOwnBlockOnly) {
  RunCommunicator(2, [](Rank& rank) {
    const DeviceArray<float> memory(std::vector<float>(16, 1));
    float* const own = memory.data() + 8 * rank.rank();
    float* const other = memory.data() + 8 * (1 - rank.rank());
    EXPECT_EQ(ncclAllGather(other, memory.data(), 8, ncclFloat32, rank.comm(), rank.stream()),
              ncclInvalidArgument);
    EXPECT_EQ(ncclReduceScatter(memory.data(), other, 8, ncclFloat32, ncclSum, rank.comm(),
                                rank.stream()),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAllGather(own, memory.data(), 8, ncclFloat32, rank.comm(), rank.stream()),
              ncclSuccess);
    EXPECT_EQ(
        ncclReduceScatter(memory.data(), own, 8, ncclFloat32, ncclSum, rank.comm(), rank.stream()),
        ncclSuccess);
    Synchronize(rank.stream());
  });
}

TEST(NcclFaultsTest, FindsBuffersOfOneGroupThatOverlap) {
  RunCommunicator(2, [](Rank& rank) {
    const int peer = 1 - rank.rank();
    const DeviceArray<float> memory(std::vector<float>(16, 1));
    ncclGroupStart();
    ncclSend(memory.data(), 8, ncclFloat32, peer, rank.comm(), rank.stream());
    ncclRecv(memory.data() + 4, 8, ncclFloat32, peer, rank.comm(), rank.stream());
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_THAT(rank.LastError(), HasSubstr("its receive buffer overlaps the send buffer of "
                                            "ncclSend"));
  });
}

TEST(NcclFaultsTest, FindsABufferThatIsFreedTooEarly) {
  const Scope adversarial = WithStreamOrder(StreamOrder::kAdversarial);
  RunCommunicator(1, [](Rank& rank) {
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(memory, memory, 16, ncclFloat32, ncclSum, rank.comm(), rank.stream()),
              ncclSuccess);
    cudaSetDevice(1);  // so that cudaFree waits for the wrong device
    ASSERT_EQ(cudaFree(memory), cudaSuccess);
    EXPECT_THAT(FaultOf(rank), HasSubstr("was freed before the stream reached it"));
    cudaSetDevice(0);
  });
}

TEST(NcclFaultsTest, FindsAStreamOfAnotherDevice) {
  RunCommunicator(1, [](Rank& rank) {
    const DeviceArray<float> memory(std::vector<float>(8, 1));
    cudaSetDevice(1);
    const TestStream stream;
    EXPECT_EQ(
        ncclAllReduce(memory.data(), memory.data(), 8, ncclFloat32, ncclSum, rank.comm(), stream),
        ncclInvalidArgument);
    EXPECT_THAT(rank.LastError(), HasSubstr("the stream is on device 1"));
    cudaSetDevice(0);
  });
}

TEST(NcclFaultsTest, RefusesTwoRanksOnOneDevice) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  RunRanks(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("Duplicate GPU detected"));
  });
}

TEST(NcclFaultsTest, LetsRanksShareADeviceWhereATestAllowsIt) {
  const Scope shared = WithNcclSharedDevices();
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  RunRanks(2, [&](int number) {
    Rank rank(2, id, number, "shared");
    const DeviceArray<float> memory(std::vector<float>(8, 1));
    ASSERT_EQ(AllReduce(rank, memory, 8), ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(memory.Get(), std::vector<float>(8, 2));
  });
}

TEST(NcclFaultsTest, NamesTheRanksThatAreMissingAtTheStart) {
  const Scope impatience = WithNcclTimeout(0.2);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 3, id, 1), ncclSystemError);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("these did not come in time: 0 2"));
  RunCommunicator(2, [](Rank& rank) {
    ncclComm_t part = nullptr;
    if (rank.rank() == 1) return;
    EXPECT_EQ(ncclCommSplit(rank.comm(), 0, 0, &part, nullptr), ncclSystemError);
    EXPECT_THAT(rank.LastError(), HasSubstr("only 1 of 2 ranks called it in time: 0"));
  });
}

TEST(NcclFaultsTest, AbortLetsPendingOperationsGo) {
  RunCommunicator(2, [](Rank& rank) {
    if (rank.rank() == 1) return;
    const DeviceArray<float> memory(std::vector<float>(8, 1));
    ASSERT_EQ(AllReduce(rank, memory, 8), ncclSuccess);
    EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaErrorNotReady);
    EXPECT_EQ(ncclCommDestroy(rank.comm()), ncclInvalidUsage);
    EXPECT_THAT(rank.LastError(), HasSubstr("1 operations are pending"));
    EXPECT_EQ(ncclCommAbort(rank.ReleaseComm()), ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(memory.Get(), std::vector<float>(8, 1));
  });
}

TEST(NcclFaultsTest, AbortEndsASplitThatWaits) {
  RunCommunicator(2, [](Rank& rank) {
    if (rank.rank() == 1) return;
    std::thread watchdog([comm = rank.comm(), state = nccl::RankOf(rank.comm())] {
      const auto is_waiting = [&] {
        const std::lock_guard lock(state->clique->mutex());
        return state->num_splits > 0;
      };
      while (!is_waiting()) std::this_thread::yield();
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    });
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(rank.ReleaseComm(), 0, 0, &part, nullptr), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("the communicator was aborted"));
    watchdog.join();
  });
}

TEST(NcclFaultsTest, ReportsInjectedErrorsFromTheirOperationOn) {
  const Scope failure = WithNcclFailure(
      {.communicator = "world", .rank = 1, .operation = 1, .async_error = ncclRemoteError});
  RunCommunicator(2, [](Rank& rank) {
    const DeviceArray<float> memory(std::vector<float>(8, 1));
    ncclResult_t error = ncclInternalError;
    ASSERT_EQ(AllReduce(rank, memory, 8), ncclSuccess);
    Synchronize(rank.stream());
    EXPECT_EQ(ncclCommGetAsyncError(rank.comm(), &error), ncclSuccess);
    EXPECT_EQ(error, ncclSuccess);
    ASSERT_EQ(AllReduce(rank, memory, 8), ncclSuccess);
    EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaErrorNotReady);
    EXPECT_EQ(ncclCommGetAsyncError(rank.comm(), &error), ncclSuccess);
    EXPECT_EQ(error, rank.rank() == 1 ? ncclRemoteError : ncclSuccess);
    EXPECT_EQ(ncclCommAbort(rank.ReleaseComm()), ncclSuccess);
    Synchronize(rank.stream());
  });
}

TEST(NcclFaultsTest, RefusesWhatIsNoCommunicator) {
  RunCommunicator(1, [](Rank& rank) {
    const ncclComm_t comm = rank.ReleaseComm();
    ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
    const DeviceArray<float> memory(std::vector<float>(8, 1));
    for (const ncclComm_t bad : {comm, ncclComm_t{nullptr}}) {
      EXPECT_EQ(
          ncclAllReduce(memory.data(), memory.data(), 8, ncclFloat32, ncclSum, bad, rank.stream()),
          ncclInvalidArgument);
      EXPECT_THAT(ncclGetLastError(nullptr),
                  HasSubstr("the communicator is null or was destroyed"));
    }
  });
}

}  // namespace
}  // namespace tessera::cuda_emulation::testing
