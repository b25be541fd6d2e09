// What the other ranks see when one of them fails, leaves, is late or does something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cost_model/base/check.h"
#include "tests/testing/comm_backends.h"

namespace tessera::engine {
namespace {

namespace fs = std::filesystem;
using base::DType;
using base::ReduceOp;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::Eq;
using ::testing::HasSubstr;

using testing::CommOptions;

class CommunicatorFailureTest : public testing::OnEachBackend {
 protected:
  // Runs `wait` on all ranks but `late_rank`, which stays alive and silent until one has failed.
  std::string FailureWithLateRank(int num_ranks, int late_rank, double timeout_s,
                                  const std::function<void(Communicator&)>& wait) const {
    std::atomic<bool> one_has_failed{false};
    return CommFailureOf(num_ranks, {.timeout_s = timeout_s}, [&](Communicator& world) {
      if (world.rank() == late_rank) {
        while (!one_has_failed) std::this_thread::yield();
        return;
      }
      try {
        wait(world);
      } catch (const base::CommError&) {
        one_has_failed = true;
        throw;
      }
    });
  }
};

void AllReduceOne(Communicator& comm) {
  float value = 1;
  comm.AllReduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum);
}

TEST_P(CommunicatorFailureTest, ATimeoutNamesRankGroupOperationAndWhoIsMissing) {
  const std::string failure = FailureWithLateRank(3, 2, 0.1, AllReduceOne);
  EXPECT_THAT(
      failure,
      AnyOf(Eq("rank 0 of world: all_reduce #1 timed out after 0.1 s; rank 2 has not arrived"),
            Eq("rank 1 of world: all_reduce #1 timed out after 0.1 s; rank 2 has not arrived")));
}

TEST_P(CommunicatorFailureTest, ATimeoutInASubgroupSpeaksOfRanksOfTheWorld) {
  std::atomic<bool> rank_3_has_failed{false};
  const std::string failure = CommFailureOf(4, {.timeout_s = 0.5}, [&](Communicator& world) {
    const int pair = world.rank() / 2;
    const auto group = world.Split(pair, world.rank(), pair == 0 ? "tp{0,1}" : "tp{2,3}");
    if (world.rank() == 3) {
      EXPECT_THROW(AllReduceOne(*group), base::CommError);
      rank_3_has_failed = true;
      AllReduceOne(*group);
    }
    while (!rank_3_has_failed) std::this_thread::yield();
  });
  EXPECT_EQ(failure,
            "rank 3 of tp{2,3}: all_reduce #2 aborted: rank 3 of tp{2,3}: all_reduce #1 timed out "
            "after 0.5 s; rank 2 has not arrived");
}

TEST_P(CommunicatorFailureTest, APeerThatEndsIsNoticedAtOnce) {
  const std::string failure = CommFailureOf(3, {}, [](Communicator& world) {
    if (world.rank() != 1) world.Barrier();
  });
  EXPECT_THAT(failure, HasSubstr("barrier #1 cannot complete; rank 1 has ended without it"));
}

TEST_P(CommunicatorFailureTest, TheFirstFailureComesOutAndNotWhatItLeadsTo) {
  std::atomic<int> num_aborted{0};
  std::atomic<int> num_begun{
      0};  // that are out of the first barrier, which the failure would end too
  try {
    RunRanks(4, [&](Communicator& world) {
      world.Barrier();
      ++num_begun;
      if (world.rank() == 2) {
        while (num_begun < 4) std::this_thread::yield();
        throw std::out_of_range("no such layer");
      }
      try {
        world.Barrier();
      } catch (const base::CommError& error) {
        EXPECT_THAT(error.what(), HasSubstr("barrier #2 aborted: rank 2 failed: no such layer"));
        ++num_aborted;
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "no such layer");
  }
  EXPECT_EQ(num_aborted, 3);
}

TEST_P(CommunicatorFailureTest, ExceptionsOfAnyTypeComeOut) {
  EXPECT_THROW(RunRanks(2,
                        [](Communicator& world) {
                          if (world.rank() == 1) throw 42;
                          world.Barrier();
                        }),
               int);
}

TEST_P(CommunicatorFailureTest, AnAbortWakesWaitersOfEveryKindAndGroup) {
  std::atomic<int> num_woken{0};
  const std::string failure = CommFailureOf(6, {}, [&](Communicator& world) {
    const int rank = world.rank();
    const auto odd_or_even = world.Split(rank % 2, rank, rank % 2 == 0 ? "even" : "odd");
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      return world.Abort("disk full");
    }
    try {
      std::vector<float> data(100'000);
      if (rank == 1) world.Recv(data.data(), 10, DType::kFloat32, 2, 0);
      if (rank == 2) odd_or_even->Barrier();
      if (rank == 3) AllReduceOne(world);
      if (rank == 4) {
        world.AllReduceAsync(data.data(), data.data(), 100'000, DType::kFloat32, ReduceOp::kMax)
            ->Wait();
      }
      if (rank == 5) world.RecvAsync(data.data(), 10, DType::kFloat32, 0, 1)->Wait();
    } catch (const base::CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr(" aborted: disk full"));
      ++num_woken;
      throw;
    }
  });
  EXPECT_EQ(num_woken, 5);
  EXPECT_THAT(failure, HasSubstr(" aborted: disk full"));
}

TEST_P(CommunicatorFailureTest, EverythingAfterAnAbortThrows) {
  std::atomic<int> num_begun{0};
  RunRanks(2, [&](Communicator& world) {
    for (++num_begun; num_begun < 2;) std::this_thread::yield();  // joined, which an abort ends too
    world.Abort("enough");
    int value = 0;
    EXPECT_THROW(world.Barrier(), base::CommError);
    EXPECT_THROW(world.Recv(&value, 1, DType::kInt32, 1 - world.rank(), 0), base::CommError);
    EXPECT_THROW(world.Send(&value, 1, DType::kInt32, 1 - world.rank(), 0), base::CommError);
    EXPECT_THROW(world.Split(0, 0, "late"), base::CommError);
  });
}

TEST_P(CommunicatorFailureTest, DifferentOperationsAreAnErrorThatNamesBoth) {
  const std::string failure = CommFailureOf(2, {}, [](Communicator& world) {
    std::vector<float> data(64);
    world.Barrier();
    if (world.rank() == 0) {
      world.AllReduce(data.data(), data.data(), 64, DType::kFloat32, ReduceOp::kSum);
    } else {
      world.AllGather(data.data(), data.data() + 16, 16, DType::kFloat32);
    }
  });
  EXPECT_THAT(failure, HasSubstr("operation #2 differs: rank 0 called all_reduce(64 fp32, sum), "
                                 "rank 1 called all_gather(16 fp32)"));
}

TEST_P(CommunicatorFailureTest, DifferentSizesTypesReductionsAndRootsAreErrors) {
  using Call = std::function<void(Communicator&, bool is_odd_one, float* data)>;
  const std::vector<Call> calls = {
      [](Communicator& world, bool odd, float* data) {
        world.AllReduce(data, data, odd ? 63 : 64, DType::kFloat32, ReduceOp::kSum);
      },
      [](Communicator& world, bool odd, float* data) {
        world.AllReduce(data, data, 64, odd ? DType::kInt32 : DType::kFloat32, ReduceOp::kSum);
      },
      [](Communicator& world, bool odd, float* data) {
        world.AllReduce(data, data, 64, DType::kFloat32, odd ? ReduceOp::kMax : ReduceOp::kSum);
      },
      [](Communicator& world, bool odd, float* data) {
        world.Broadcast(data, 64, DType::kFloat32, odd ? 1 : 0);
      },
      // Too large to be done by the last to arrive.
      [](Communicator& world, bool odd, float* data) {
        world.Broadcast(data, odd ? 90'000 : 100'000, DType::kFloat32, 0);
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string failure = CommFailureOf(4, {}, [&](Communicator& world) {
      std::vector<float> data(100'000);
      calls[i](world, world.rank() == 2, data.data());
    });
    EXPECT_THAT(failure, HasSubstr("operation #1 differs: rank 0 called")) << i;
    EXPECT_THAT(failure, HasSubstr("rank 2 called")) << i;
  }
}

TEST_P(CommunicatorFailureTest, PeersAreToldTheErrorThatMadeARankGiveUpItsOperations) {
  if (!has_processes()) GTEST_SKIP() << "threads have the error itself";
  std::atomic<int> num_told{0};
  std::atomic<int> num_begun{0};
  EXPECT_THROW(RunRanks(3,
                        [&](Communicator& world) {
                          int value = 0;
                          ++num_begun;
                          if (world.rank() == 1) {
                            while (num_begun < 3) std::this_thread::yield();
                            const auto receive = world.RecvAsync(&value, 1, DType::kInt32, 2, 0);
                            throw std::runtime_error("out of luck");
                          }
                          try {
                            AllReduceOne(world);
                          } catch (const base::CommError& error) {
                            EXPECT_THAT(error.what(), HasSubstr("rank 1 failed: out of luck"));
                            ++num_told;
                            throw;
                          }
                        }),
               std::runtime_error);
  EXPECT_EQ(num_told, 2);
}

TEST_P(CommunicatorFailureTest, AnErrorBetweenPostingAndWaitingLeavesNoBufferInUse) {
  // The buffers go with the stack of the rank that fails; a sanitizer sees who still touches them.
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(RunRanks(3,
                          [](Communicator& world) {
                            std::vector<float> data(200'000, 1.0f);
                            std::vector<float> message(50'000, 1.0f);
                            const auto reduce = world.AllReduceAsync(
                                data.data(), data.data(), 200'000, DType::kFloat32, ReduceOp::kSum);
                            const auto receive = world.RecvAsync(
                                message.data(), 50'000, DType::kFloat32, (world.rank() + 1) % 3, 0);
                            if (world.rank() == 1) throw std::runtime_error("out of luck");
                            reduce->Wait();
                            receive->Wait();
                          }),
                 std::runtime_error);
  }
}

TEST_P(CommunicatorFailureTest, EveryRankThatFailsWritesDownItsLastOperations) {
  const fs::path folder = fs::path(::testing::TempDir()) / base::Concat("tessera_last_", getpid());
  fs::create_directories(folder);
  std::atomic<int> num_reduced{0};
  const std::string failure =
      CommFailureOf(3, {.record_folder = folder.string()}, [&](Communicator& world) {
        world.BeginStep(4);
        AllReduceOne(world);
        ++num_reduced;
        if (world.rank() != 1) return world.Barrier();
        while (num_reduced < 3) std::this_thread::yield();
      });
  EXPECT_THAT(failure, HasSubstr("rank 1 has ended without it"));
  EXPECT_THAT(failure, HasSubstr("(last operations: " + folder.string()));
  for (const int rank : {0, 2}) {
    std::ifstream file(folder / base::Concat("flight-record-rank-", rank, ".txt"));
    const std::string record = {std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(record, HasSubstr("rank 1 has ended without it"));
    EXPECT_THAT(record, HasSubstr("0\t4\tworld\tall_reduce #1\tall_reduce(1 fp32, sum)\t"));
    EXPECT_THAT(record, HasSubstr("1\t4\tworld\tbarrier #2\tbarrier\t"));
    EXPECT_THAT(record, EndsWith("not over\n"));
  }
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorFailureTest,
                         ::testing::ValuesIn(testing::CommBackends()), testing::NameOfBackend);

}  // namespace
}  // namespace tessera::engine
